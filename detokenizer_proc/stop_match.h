/*
 * stop_match.h - finds the first of several stop strings in a text that comes in pieces.
 *
 * An Aho-Corasick automaton over bytes. Its state is the longest end of the text so far that may
 * still become a stop string, and just that is held back. That end is the start of a stop string,
 * which the automaton knows, so a text in progress is one number: no held bytes are stored with it.
 *
 * The first match is the one with the earliest end; of two that end together it is the longer.
 * Memory is linear in the stop strings, time per byte constant on average over a text.
 * Source: Aho and Corasick, Efficient string matching, CACM 18 (1975).
 */
#ifndef DETOKENIZER_PROC_STOP_MATCH_H
#define DETOKENIZER_PROC_STOP_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "proto/messages.h"

/* Node n stands for a start of some stop string; node 0 for the empty one. Nodes are numbered level
 * by level, so the children of a node follow each other. */
struct stop_node {
    uint32_t text;        /* where in texts the string of this node starts */
    uint32_t depth;       /* its size */
    uint32_t fail;        /* node of its longest proper end that is a node; may be 0 */
    uint32_t match;       /* size of the longest stop string that it ends with; 0: none */
    uint32_t first_child; /* children: first_child .. first_child + num_children - 1 */
    uint32_t num_children;
};

struct stop_match {
    struct stop_node *nodes; /* owned, [num_nodes] */
    uint8_t *bytes;          /* owned, [num_nodes]: the last byte of each node's string */
    uint8_t *texts;          /* owned: the stop strings */
    uint32_t num_nodes;
    uint32_t roots[256]; /* the child of node 0 by byte, or 0 */
};

/* Builds the automaton of strings of UTF-8, which are copied. STATUS_INVALID for a string that is
 * empty or not UTF-8. */
MUST_CHECK struct status stop_match_init(struct stop_match *match, const struct bytes *strings,
                                         size_t num_strings);
void stop_match_deinit(struct stop_match *match);

/* How many bytes of a text in that state are held back. */
static inline size_t stop_match_held(const struct stop_match *match, uint32_t state)
{
    return match->nodes[state].depth;
}

/*
 * Takes a piece, text[size], and puts in its place what may be sent now: held bytes that cannot
 * become a match any more, then those of the piece; returns its size. The buffer has room for
 * stop_match_held() bytes more than the piece. *state starts as 0. On a match *out_matched is set
 * and what is returned ends before the match; the state is then of no use.
 */
size_t stop_match_feed(const struct stop_match *match, uint32_t *state, char *text, size_t size,
                       bool *out_matched);

/* The end of the text: the held bytes, to out [stop_match_held()]; returns their number. */
size_t stop_match_flush(const struct stop_match *match, uint32_t *state, char *out);

/* Walks the automaton and asserts its invariants. */
void stop_match_check(const struct stop_match *match);

#endif
