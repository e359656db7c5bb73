/*
 * bench_overlap.h - minisgl bench overlap: what the overlap loop gains over the normal one on a
 * running server, whatever its device and model.
 *
 * For each number of streams the same load runs with the normal loop and with the overlap loop, in
 * turns, so that what else the machine does meets both. The server is told to change loops through
 * its control endpoint, has its prefix cache emptied before each run, and gets its own loop back.
 * Milliseconds are between two tokens of a stream as the scheduler had them; tokens a second are
 * the client's.
 * For the gain against the model's size, run it against servers of several models, or of `sim` with
 * several step times.
 */
#ifndef TOOLS_CLIENT_BENCH_OVERLAP_H
#define TOOLS_CLIENT_BENCH_OVERLAP_H

#include "tools/client/bench.h"

/* Prints a line for each of --batches. The server was not given by its endpoints: its control
 * endpoint would not be known. */
MUST_CHECK struct status bench_overlap(struct bench *bench);

#endif
