/* The tree depends on the number of sources alone, so the order of additions, and with it every bit of a sum,
 * does not depend on the hosts of the slots. Because splits are at powers of two, an aligned block of slots
 * is a complete node: a domain that holds one sums it, and a host that holds one sends a single partial result. */
#include "collectives/tree.h"

#include <stdbool.h>

int iso_tree_left(int count)
{
    int left = 1;
    while (left < count - left)
        left *= 2;
    return left;
}

typedef struct cutter {
    const iso_memory_location *location;
    iso_memory_location here;
    iso_tree_node *nodes;
    int made;
} cutter;

/* Whether the reader gets the node's value from elsewhere: from another host, or another domain of its own. */
static bool comes_combined(const iso_memory_location *location, int count, iso_memory_location here)
{
    bool away = location[0].host != here.host;
    if (!away && location[0].domain == here.domain)
        return false;
    for (int i = 1; i < count; i++)
        if (location[i].host != location[0].host || (!away && location[i].domain != location[0].domain))
            return false;
    return true;
}

static void tree_cut(cutter *c, int begin, int count)
{
    if (count == 1 || comes_combined(c->location + begin, count, c->here)) {
        c->nodes[c->made++] = (iso_tree_node){begin, count, 0};
        return;
    }
    int left = iso_tree_left(count);
    tree_cut(c, begin, left);
    tree_cut(c, begin + left, count - left);
    c->nodes[c->made - 1].n_folds++;
}

int iso_tree_cut(const iso_memory_location *location, int count, iso_memory_location here,
                 iso_tree_node *nodes)
{
    cutter c = {location, here, nodes, 0};
    tree_cut(&c, 0, count);
    return c.made;
}
