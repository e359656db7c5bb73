/* order.c - see order.h. Heap sort: it needs no memory, and no input is bad for it. */
#include "kernels/cpu/order.h"

static void sift_down(uint64_t *keys, size_t root, size_t n)
{
    uint64_t key = keys[root];

    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= n)
            break;
        if (child + 1 < n && keys[child + 1] > keys[child])
            child++;
        if (keys[child] <= key)
            break;
        keys[root] = keys[child];
        root = child;
    }
    keys[root] = key;
}

void order_sort(uint64_t *keys, size_t n)
{
    for (size_t root = n / 2; root-- > 0;)
        sift_down(keys, root, n);
    for (size_t end = n; end > 1; end--) {
        uint64_t largest = keys[0];
        keys[0] = keys[end - 1];
        keys[end - 1] = largest;
        sift_down(keys, 0, end - 1);
    }
}
