/*
 * gpu.cpp - the emulated card: threads and their meetings, shared memory, barriers that count
 * bytes, copies, wgmma.
 */
#include "tests/gpu/emulated/gpu.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

enum {
    STACK_SIZE = 64 << 10,
    MAX_THREADS = 1024,
    MAX_BARRIERS = 128,
    DYNAMIC_AT = 1024 + 16, /* address of dynamic shared memory: no more aligned than on a card */
    DYNAMIC_SIZE = 232448,
    ROW_BYTES = 128,    /* of a tile */
    MAX_IDLE = 1000000, /* rounds in which no thread gets on: half a minute */
};

/* Where num threads wait for each other. */
struct meeting {
    int num_there, round;
};

/* A wgmma. */
struct product {
    float *c;
    uint64_t a, b;
    int n;
};

/* A copy by a thread itself. */
struct piece {
    uint32_t to;
    const void *from;
};

struct cuda_thread {
    ucontext_t start; /* its first turn */
    jmp_buf next;     /* every other one */
    std::unique_ptr<unsigned char[]> stack;
    bool has_begun, is_done, has_waited;             /* has_waited: for the kernel before */
    std::vector<std::vector<struct product>> groups; /* not done yet; the last one is open */
    std::vector<std::vector<struct piece>> pieces;   /* the same */
};

struct copy {
    uint32_t to, barrier, blocks;
    CUtensorMap map;
    int at[4];
};

struct barrier {
    int count, pending; /* pending: arrivals that this phase lacks */
    int64_t bytes;      /* that it lacks */
    std::atomic<int> phase;
};

struct block {
    int rank;
    unsigned number; /* in the grid */
    unsigned char *dynamic;
    const unsigned char *static_base; /* the first barrier that the kernel named */
    struct barrier barriers[MAX_BARRIERS];
    std::mutex barriers_mutex; /* other blocks of the cluster arrive too */
    std::atomic<bool> has_ended;
    struct meeting all, named, warps[MAX_THREADS / WARP];
    struct emulated_words words[MAX_THREADS];
    std::vector<struct copy> copies; /* not done yet */
    std::vector<uint32_t> arrivals;  /* on their way to other blocks, by address */
    std::vector<struct cuda_thread> threads;
    int current; /* whose turn it is */
    jmp_buf scheduler;
    std::minstd_rand random;
};

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;
struct emulated_delays emulated_delays;
bool (*emulated_is_new)(const void *from);

/* What kernels call their dynamic shared memory. */
alignas(1024) thread_local unsigned char dynamic[DYNAMIC_SIZE];
extern thread_local unsigned char rings[DYNAMIC_SIZE] __attribute__((alias("dynamic")));

static thread_local struct block *self;

/* Of the launch; one runs at a time. */
static struct {
    int cluster, num_threads;
    size_t shared_bytes;
    const std::function<void()> *kernel;
    std::vector<std::unique_ptr<struct block>> blocks; /* of the cluster */
    std::mutex mutex;                                  /* for everyone */
    struct meeting everyone;                           /* all threads of the cluster */
    unsigned seed;
    std::atomic<unsigned> progress; /* changes whenever a wait is over */
    std::atomic<size_t> pieces_read;
    std::atomic<bool> has_waited; /* any thread, for the kernel before */
} launched;

[[noreturn]] static void fault(const char *what)
{
    fprintf(stderr, "block %u, thread %d: %s\n", self->number, self->current, what);
    abort();
}

/* Lets the others go on. Not by swapcontext(), which asks the kernel twice; between two calls of
 * _setjmp() and _longjmp() no object ends its life. */
static void pause_thread()
{
    if (_setjmp(self->threads[self->current].next) == 0)
        _longjmp(self->scheduler, 1);
}

/* Until that thread pauses, or ends. */
static void take_turn(int number)
{
    struct cuda_thread *thread = &self->threads[number];

    self->current = number;
    threadIdx = dim3((unsigned)number);
    if (_setjmp(self->scheduler))
        return;
    if (thread->has_begun)
        _longjmp(thread->next, 1);
    thread->has_begun = true;
    setcontext(&thread->start);
}

/* Returns the round that is to be over; with the last of num it is. */
static int arrive(struct meeting *meeting, int num)
{
    int round = meeting->round;

    if (++meeting->num_there == num) {
        meeting->num_there = 0;
        meeting->round++;
        launched.progress++;
    }
    return round;
}

static void meet(struct meeting *meeting, int num)
{
    int round = arrive(meeting, num);

    while (meeting->round == round)
        pause_thread();
}

void emulated_block_sync()
{
    meet(&self->all, launched.num_threads);
}

void emulated_threads_sync(int num_threads)
{
    meet(&self->named, num_threads);
}

void emulated_warp_sync()
{
    meet(&self->warps[self->current / WARP], WARP);
}

void emulated_cluster_meet()
{
    std::unique_lock<std::mutex> lock(launched.mutex);
    int round = arrive(&launched.everyone, launched.num_threads * launched.cluster);

    while (launched.everyone.round == round) {
        lock.unlock();
        pause_thread();
        lock.lock();
    }
}

int emulated_rank()
{
    return self->rank;
}

int emulated_cluster_size()
{
    return launched.cluster;
}

const struct emulated_words *emulated_exchange(const uint32_t *words, int num)
{
    memcpy(self->words[self->current].v, words, (size_t)num * sizeof(*words));
    emulated_warp_sync();
    return self->words + self->current / WARP * WARP;
}

uint32_t emulated_address(const void *shared)
{
    const unsigned char *byte = (const unsigned char *)shared;

    if (byte >= dynamic && byte < dynamic + DYNAMIC_SIZE)
        return (uint32_t)(byte - dynamic) + DYNAMIC_AT;
    if (self->static_base == NULL)
        self->static_base = byte;
    return (uint32_t)(byte - self->static_base);
}

/* Own, or the block of the cluster that the address names. */
static struct block *block_of(uint32_t address)
{
    struct block *block = address >> 24 ? launched.blocks[(address >> 24) - 1].get() : self;

    if (block->has_ended)
        fault("the shared memory of a block that has ended");
    return block;
}

unsigned char *emulated_shared(uint32_t address, size_t size)
{
    uint32_t offset = (address & 0xFFFFFF) - DYNAMIC_AT;

    if (offset % size || offset + size > launched.shared_bytes)
        fault("an address outside the shared memory that the launch asked for, or unaligned");
    return block_of(address)->dynamic + offset;
}

static struct barrier *barrier_of(uint32_t address)
{
    struct block *block = block_of(address);

    address &= 0xFFFFFF;
    if (address % 8 || address / 8 >= MAX_BARRIERS || !block->barriers[address / 8].count)
        fault("no barrier");
    return &block->barriers[address / 8];
}

/* So many arrivals and bytes are there. */
static void settle(uint32_t address, int arrivals, int64_t bytes)
{
    std::lock_guard<std::mutex> lock(block_of(address)->barriers_mutex);
    struct barrier *barrier = barrier_of(address);

    barrier->pending -= arrivals;
    barrier->bytes -= bytes;
    if (barrier->pending < 0)
        fault("more arrivals than the barrier counts");
    if (barrier->pending > 0 || barrier->bytes != 0)
        return;
    barrier->phase++;
    barrier->pending = barrier->count;
    launched.progress++;
}

void emulated_barrier_init(uint32_t address, int count)
{
    if (address % 8 || address / 8 >= MAX_BARRIERS)
        fault("a barrier in the wrong place");
    struct barrier *barrier = &self->barriers[address / 8];

    barrier->count = barrier->pending = count;
    barrier->bytes = 0;
    barrier->phase = 0;
}

void emulated_barrier_arrive(uint32_t address)
{
    if (address >> 24)
        self->arrivals.push_back(address);
    else
        settle(address, 1, 0);
}

static void do_arrivals()
{
    for (uint32_t address : self->arrivals)
        settle(address, 1, 0);
    self->arrivals.clear();
}

void emulated_cluster_sync()
{
    do_arrivals();
    emulated_cluster_meet();
}

void emulated_barrier_expect(uint32_t address, int bytes)
{
    settle(address, 1, -bytes);
}

void emulated_barrier_wait(uint32_t address, int parity)
{
    while ((barrier_of(address)->phase & 1) == parity)
        pause_thread();
}

CUresult emulated_encode(CUtensorMap *out, int, cuuint32_t rank, void *base,
                         const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                         const cuuint32_t *, int, int, int, int)
{
    *out = {(const unsigned char *)base, {1, 1, 1, 1}, {2, 0, 0, 0}, {1, 1, 1, 1}};
    if (rank > 4 || (size_t)base % 16 || box[0] * 2 > ROW_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    for (cuuint32_t i = 0; i < rank; i++) {
        out->sizes[i] = sizes[i];
        out->box[i] = box[i];
        if (i > 0)
            out->strides[i] = strides[i - 1];
        if (sizes[i] == 0 || box[i] == 0 || box[i] > 256 || (i > 0 && out->strides[i] % 16))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* One element of a box: what lies beyond the matrix is zero. */
static uint16_t element_at(const CUtensorMap *map, const int *at, const cuuint32_t *i)
{
    const unsigned char *from = map->base;
    uint16_t element;

    for (int d = 0; d < 4; d++) {
        int64_t place = at[d] + (int64_t)i[d];

        if (place < 0 || place >= (int64_t)map->sizes[d])
            return 0;
        from += (uint64_t)place * map->strides[d];
    }
    memcpy(&element, from, sizeof(element));
    return element;
}

/* The place of a byte of a tile: pieces of 16 are swapped within a row. */
static uint32_t swapped(uint32_t address)
{
    return address ^ (address / ROW_BYTES % 8 * 16);
}

/* upper: of addresses, see emulated_address(). */
static void do_copy_to(const struct copy *copy, uint32_t upper)
{
    const cuuint32_t *box = copy->map.box;
    uint32_t to = copy->to;
    cuuint32_t i[4];

    if (to % 1024)
        fault("a tile that begins at no multiple of 1024");
    for (i[3] = 0; i[3] < box[3]; i[3]++)
        for (i[2] = 0; i[2] < box[2]; i[2]++)
            for (i[1] = 0; i[1] < box[1]; i[1]++)
                for (i[0] = 0; i[0] < box[0]; i[0]++, to += 2) {
                    uint16_t element = element_at(&copy->map, copy->at, i);

                    memcpy(emulated_shared(swapped(to) | upper, 2), &element, 2);
                }
    settle(copy->barrier | upper, 0, to - copy->to);
}

static void do_copy(const struct copy *copy)
{
    if (copy->blocks == 0)
        do_copy_to(copy, 0);
    if (copy->blocks >> launched.cluster)
        fault("a copy to a block that the cluster does not have");
    for (uint32_t rank = 0; copy->blocks >> rank; rank++)
        if (copy->blocks >> rank & 1)
            do_copy_to(copy, (rank + 1) << 24);
}

static void check_is_old(const void *from)
{
    if (!self->threads[self->current].has_waited && emulated_is_new && emulated_is_new(from))
        fault("a copy of what the kernel before writes, by a thread that has not waited for it");
}

void emulated_copy(uint32_t to, const CUtensorMap *map, const int *at, uint32_t barrier,
                   uint32_t blocks)
{
    struct copy copy = {to, barrier, blocks, *map, {at[0], at[1], at[2], at[3]}};

    check_is_old(map->base);
    if (emulated_delays.copies)
        self->copies.push_back(copy);
    else
        do_copy(&copy);
}

void emulated_pdl_wait()
{
    self->threads[self->current].has_waited = true;
    launched.has_waited = true;
}

/* What a thread has put off, but for the last groups that are closed; the open one is behind them.
 */
template <typename Work>
static void do_groups(std::vector<std::vector<Work>> *groups, int left, void (*act)(const Work *))
{
    while ((int)groups->size() - 1 > left) {
        for (const Work &work : groups->front())
            act(&work);
        groups->erase(groups->begin());
    }
}

static void do_piece(const struct piece *piece)
{
    if (piece->from)
        memcpy(emulated_shared(piece->to, 16), piece->from, 16);
    else
        memset(emulated_shared(piece->to, 16), 0, 16);
}

void emulated_piece(uint32_t to, const void *from)
{
    struct cuda_thread *thread = &self->threads[self->current];
    struct piece piece = {to, from};

    if ((size_t)from % 16)
        fault("a copy from an unaligned address");
    if (from)
        check_is_old(from);
    launched.pieces_read += from != NULL;
    memset(emulated_shared(to, 16), 0xFF, 16); /* from now on it may be there in part */
    if (emulated_delays.copies)
        thread->pieces.back().push_back(piece);
    else
        do_piece(&piece);
}

void emulated_pieces_commit()
{
    self->threads[self->current].pieces.emplace_back();
}

void emulated_pieces_wait(int left)
{
    do_groups(&self->threads[self->current].pieces, left, do_piece);
}

size_t emulated_pieces_read()
{
    return launched.pieces_read;
}

/* Row row and element k of a matrix that a descriptor names. */
static float matrix_element(uint64_t matrix, int row, int k)
{
    uint32_t at = (uint32_t)matrix * 16 + (uint32_t)(row * ROW_BYTES + k * 2);
    uint32_t bits = 0; /* of a float, whose upper half bfloat16 is */
    float x;

    memcpy((char *)&bits + 2, emulated_shared(swapped(at), 2), 2);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* This thread's part of it. */
static void do_product(const struct product *p)
{
    int warp = (int)threadIdx.x / WARP % 4, lane = (int)threadIdx.x % WARP;
    float a[2][16];

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 16; k++)
            a[i][k] = matrix_element(p->a, 16 * warp + lane / 4 + 8 * i, k);
    for (int j = 0; j < p->n / 4; j++) { /* column by column */
        int column = j / 2 * 8 + lane % 4 * 2 + j % 2;

        for (int k = 0; k < 16; k++) {
            float b = matrix_element(p->b, column, k);

            for (int i = 0; i < 2; i++)
                p->c[j / 2 * 4 + i * 2 + j % 2] += a[i][k] * b;
        }
    }
}

void emulated_wgmma(float *c, uint64_t a, uint64_t b, int n)
{
    struct product product = {c, a, b, n};

    if (a * 16 % 1024 >= ROW_BYTES || b * 16 % 1024 >= ROW_BYTES)
        fault("a matrix of wgmma that begins at no multiple of 1024");
    if (emulated_delays.products)
        self->threads[self->current].groups.back().push_back(product);
    else
        do_product(&product);
}

void emulated_wgmma_commit()
{
    self->threads[self->current].groups.emplace_back();
}

void emulated_wgmma_wait(int left)
{
    do_groups(&self->threads[self->current].groups, left, do_product);
    emulated_warp_sync();
}

static void thread_main()
{
    struct cuda_thread *thread = &self->threads[self->current];

    (*launched.kernel)();
    if (thread->groups.size() > 1 || !thread->groups[0].empty())
        fault("a thread has ended and not waited for its wgmma");
    for (const auto &pieces : thread->pieces)
        if (!pieces.empty())
            fault("a thread has ended and not waited for its copies");
    thread->is_done = true;
    pause_thread();
}

static void start_threads()
{
    self->threads.resize((size_t)launched.num_threads);
    for (struct cuda_thread &thread : self->threads) {
        thread.stack.reset(new unsigned char[STACK_SIZE]);
        thread.groups.resize(1);
        thread.pieces.resize(1);
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = thread.stack.get();
        thread.start.uc_stack.ss_size = STACK_SIZE;
        makecontext(&thread.start, thread_main, 0);
    }
}

static void run_warp(int warp, int *num_left)
{
    for (int i = warp * WARP; i < (warp + 1) * WARP; i++) {
        if (self->threads[i].is_done)
            continue;
        take_turn(i);
        *num_left -= self->threads[i].is_done;
    }
}

/* Any of the copies that are not done, the last first; at times what is on its way elsewhere. */
static void do_some_work()
{
    auto *copies = &self->copies;

    for (size_t i = copies->size(); i-- > 0;) {
        if (self->random() % 2) {
            do_copy(&(*copies)[i]);
            copies->erase(copies->begin() + (long)i);
        }
    }
    if (self->random() % 2)
        do_arrivals();
}

/* A block, by a thread of the host. */
static void block_main(struct block *block, unsigned num_blocks)
{
    int num_left = launched.num_threads, num_idle = 0;
    unsigned progress = 0;
    std::vector<int> warps((size_t)num_left / WARP);

    self = block;
    block->dynamic = dynamic;
    memset(dynamic, 0xFF, DYNAMIC_SIZE); /* NaN */
    blockIdx = dim3(block->number);
    gridDim = dim3(num_blocks);
    blockDim = dim3((unsigned)launched.num_threads);
    for (size_t i = 0; i < warps.size(); i++)
        warps[i] = (int)i;
    start_threads();
    while (num_left > 0) {
        std::shuffle(warps.begin(), warps.end(), block->random);
        for (int warp : warps)
            if (num_left <= WARP || block->random() % 3)
                run_warp(warp, &num_left);
        do_some_work();
        num_idle = launched.progress == progress ? num_idle + 1 : 0;
        progress = launched.progress;
        if (num_idle > MAX_IDLE)
            fault("no thread gets on");
    }
    do_arrivals(); /* late, but for what has no other thread to wait for it */
    block->has_ended = true;
    if (!block->copies.empty())
        fault("a block has ended and a copy has not");
    for (size_t i = launched.shared_bytes; i < DYNAMIC_SIZE; i++)
        if (dynamic[i] != 0xFF)
            fault("shared memory was written beyond what the launch asked for");
    memset(dynamic, 0xFF, DYNAMIC_SIZE); /* who reads it still sees that it must not */
}

void emulated_launch(unsigned num_blocks, int cluster, int num_threads, size_t shared_bytes,
                     const std::function<void()> &kernel)
{
    std::vector<unsigned> firsts; /* block of each cluster */

    launched.cluster = cluster;
    launched.num_threads = num_threads;
    launched.shared_bytes = shared_bytes;
    launched.kernel = &kernel;
    launched.pieces_read = 0;
    launched.has_waited = false;
    for (unsigned first = 0; first < num_blocks; first += (unsigned)cluster)
        firsts.push_back(first);
    std::shuffle(firsts.begin(), firsts.end(), std::minstd_rand(++launched.seed));
    for (unsigned first : firsts) {
        std::vector<std::thread> hosts;

        launched.blocks.clear();
        for (int i = 0; i < cluster; i++) {
            launched.blocks.emplace_back(new block());
            launched.blocks.back()->rank = i;
            launched.blocks.back()->number = first + (unsigned)i;
            launched.blocks.back()->random.seed(++launched.seed);
        }
        for (const auto &block : launched.blocks)
            hosts.emplace_back(block_main, block.get(), num_blocks);
        for (std::thread &host : hosts)
            host.join();
    }
    if (!launched.has_waited) {
        fprintf(stderr, "a kernel that has not waited for the one before\n");
        abort();
    }
}
