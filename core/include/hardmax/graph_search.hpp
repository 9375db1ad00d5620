// The cells of a network of any shape on a segment or a polygon, depth first.
//
// An item of the stack is a convex cell on which all winners of the nodes before one node are
// known, and a list of the groups of that node that may be open on it. An open group splits the
// cell into the parts where each of its entries wins. If no group is open, the next node is
// examined; after the last node, the cell is written. Hence a wall is computed only within a cell
// of the earlier nodes.
//
// There is one set of forms (`graphs.hpp`), for the signature `winners`. For the nodes before an
// item's node, this signature agrees with the item, because the items above it on the stack changed
// only groups in its list and later nodes. If the winner of a group on a cell differs from the
// current one, the forms are changed (`flip_groups`).
//
// A side of a cell is identified by a wall, whose form on the cell depends only on earlier winners.
// A vertex is the intersection of two sides (on a segment: the zero of one side). Signs at vertices
// are decided by floats with radii; by names (forms known to be the same; three forms that are
// differences of the same three entries); by zeros at a corner of the domain if everything from
// which the form is computed vanishes there (zero biases); by floats composed afresh; and otherwise
// by the caller, in integers. The cells and their order do not depend on floats.
#pragma once
#include "graphs.hpp"
#include "polygon.hpp"

namespace hardmax {

typedef hm_graph_search GraphSearch;
typedef hm_graph_item GraphItem;

// An end of a segment: the zero of a form that is positive inside, known up to rho.
struct End {
    Form<1> line;
    double x, rho;
    Wall wall;
};

template <int D>
struct SideOf;
template <>
struct SideOf<1> {
    typedef End type;
};
template <>
struct SideOf<2> {
    typedef Edge type;
};
template <int D>
using Side = typename SideOf<D>::type;

enum GraphStatus { kGraphDone, kGraphCounted, kGraphFull, kGraphShort, kGraphStopped };

namespace detail {

constexpr std::int64_t kAtOnce = 64;  // number of groups that are skipped together
constexpr int kFewFlips = 24;         // from this number on, composing afresh takes less time
constexpr int kMostFlips = 1024;      // each flip increases the radii
constexpr std::uint8_t kAllCorners = 255;
constexpr int kStopped = 3;  // the caller could not determine a sign

inline int sign_at_side(const Form<2>& g, const Edge& side) { return filtered_sign(g, side.start); }
// As in `filtered_sign`: the value of the true form at the true zero.
inline int sign_at_side(const Form<1>& g, const End& side) {
    const double product = g.a[0] * side.x, value = product + g.c;
    double error = kKappa * (magnitude(product) + magnitude(g.c)) +
                   g.slope_radius * magnitude(side.x) + g.offset_radius;
    error = (error + (magnitude(g.a[0]) + g.slope_radius) * side.rho) * kUp + kTiny;
    return value > error ? 1 : value < -error ? -1 : 0;
}

// Recompute the vertices of a cell from its sides.
inline void place(Edge* sides, int n) {
    for (int i = 0; i < n; ++i) sides[i].start = meet(sides[i > 0 ? i - 1 : n - 1], sides[i]);
}
// With the true form l* and the computed zero x, |x - x*| = |l*(x)| / |a*|.
inline void place(End* sides, int n) {
    for (int i = 0; i < n; ++i) {
        const Form<1>& line = sides[i].line;
        const double slope = magnitude(line.a[0]) - line.slope_radius * kUp;
        sides[i].x = 0.0;
        sides[i].rho = kInfinity;
        if (!(slope > 0.0)) continue;
        const double x = -line.c / line.a[0], product = line.a[0] * x;
        const double off = magnitude(product + line.c) +
                           kKappa * (magnitude(product) + magnitude(line.c)) +
                           line.slope_radius * magnitude(x) + line.offset_radius;
        sides[i].x = x;
        sides[i].rho = (off * kUp + kTiny) / slope * kUp + kTiny;
    }
}

// Write the part of a cell where a form with both signs is nonnegative. Return the number of its
// sides.
inline int part_of(const Edge* sides, int n, const std::int8_t* signs, const Form<2>& g,
                   const Wall& wall, Edge* to) {
    return cut(sides, n, signs, 1, g, wall, to, nullptr, 0);
}
inline int part_of(const End* sides, int, const std::int8_t* signs, const Form<1>& g,
                   const Wall& wall, End* to) {
    to[0] = sides[0];
    to[1] = sides[1];
    End& cut = to[signs[0] > 0 ? 1 : 0];
    cut.line = g;
    cut.wall = wall;
    place(&cut, 1);
    return 2;
}

inline double coordinate(const Edge& side, int k) { return k == 0 ? side.start.x : side.start.y; }
inline double coordinate(const End& side, int) { return side.x; }
inline double radius_at(const Edge& side) { return side.start.rho; }
inline double radius_at(const End& side) { return side.rho; }

// A box that contains a cell: |x_k - centre_k| <= half_k.
template <int D>
struct Surrounding {
    double centre[D], half[D];
};

template <int D>
Surrounding<D> surrounding(const Side<D>* sides, int n) {
    Surrounding<D> box;
    for (int k = 0; k < D; ++k) {
        double low = kInfinity, high = -kInfinity, sum = 0.0;
        for (int i = 0; i < n; ++i) {
            const double x = coordinate(sides[i], k), rho = radius_at(sides[i]);
            low = x - rho < low ? x - rho : low;
            high = x + rho > high ? x + rho : high;
            sum += rho;
        }
        box.centre[k] = 0.5 * low + 0.5 * high;
        // The ends are rounded by a part of u each, and so are the centre and its distances from
        // them.
        const double sizes = magnitude(low) + magnitude(high);
        box.half[k] = (high - low) * 0.5 * kUp + 8.0 * kU * sizes + kTiny + (sum - sum);
    }
    return box;
}

// A lower bound on a gap (a, c) of radius e at a point, and on its decrease with the distance from
// there: the true gap at x is at least value - fall |x - centre|_max. The term e (1 + D) covers the
// radius, because no coordinate exceeds the scale.
struct Lead {
    double value, fall;
};
template <int D>
Lead lead_at(const double* centre, const GraphForm<D>& gap) {
    double value = gap.at[D], sizes = magnitude(gap.at[D]), fall = 0.0;
    for (int k = 0; k < D; ++k) {
        const double product = gap.at[k] * centre[k];
        value += product;
        sizes += magnitude(product);
        fall += magnitude(gap.at[k]);
    }
    return {value - ((D + 2.0) * gap.radius + kKappa * sizes) * kGraphUp - kTiny, fall * kGraphUp};
}

template <int D>
struct Searching {
    GraphSearch& s;
    const GraphCell& cell;
    Side<D>* sides;  // all cells of the stack, one after the other
    GraphItem* items;

    explicit Searching(GraphSearch& search)
        : s(search),
          cell(*search.cell),
          sides(static_cast<Side<D>*>(search.sides)),
          items(search.items) {}

    Form<D> gap(const Wall& wall) const {
        const GraphNode& node = cell.nodes[wall.layer];
        const std::int64_t start = node.starts[wall.group];
        const GraphForm<D> form = difference<D>(cell, entry_of<D>(cell, node, start + wall.winner),
                                                entry_of<D>(cell, node, start + wall.rival));
        Form<D> line;
        for (int k = 0; k < D; ++k) line.a[k] = form.at[k];
        line.c = form.at[D];
        line.slope_radius = slope_radius(form.radius, cell.scale);
        line.offset_radius = form.radius;
        return line;
    }

    // The identity of an entry of a group as a function.
    struct Name {
        std::int64_t number;
        double slope, offset;
        bool operator==(const Name& other) const {
            return number == other.number && slope == other.slope && offset == other.offset;
        }
    };
    Name name(const Wall& wall, int entry) const {
        const GraphNode& node = cell.nodes[wall.layer];
        const std::int64_t j = node.starts[wall.group] + entry;
        const std::int64_t number = node.columns[j] < 0 ? 0 : s.numbers[node.columns[j]];
        return {number, number == 0 ? 0.0 : node.weights[j], node.bias[j]};
    }
    // Whether a gap is known to vanish at a vertex: it is the form of a side, or all three forms
    // are differences of the same three functions.
    bool is_known_zero(const Wall& gap, const Wall& one, const Wall& other) const {
        const Name p = name(gap, gap.winner), q = name(gap, gap.rival);
        const auto holds = [&](const Wall& wall, const Name& some) {
            return wall.layer >= 0 &&
                   (name(wall, wall.winner) == some || name(wall, wall.rival) == some);
        };
        if ((holds(one, p) && holds(one, q)) || (holds(other, p) && holds(other, q))) return true;
        if (D == 1 || one.layer < 0 || other.layer < 0) return false;
        const auto rest = [&](const Wall& wall, const Name& some) {
            const Name winner = name(wall, wall.winner);
            return winner == some ? name(wall, wall.rival) : winner;
        };
        if (holds(one, p) && holds(other, q)) return rest(one, p) == rest(other, q);
        return holds(one, q) && holds(other, p) && rest(one, q) == rest(other, p);
    }

    // Find the corners of the domain at which slots vanish, from the computation of the slots: a
    // sum vanishes if all its terms do.
    void find_zeros(std::int64_t end) {
        for (; s.n_known < end; ++s.n_known) {
            const GraphNode& node = cell.nodes[s.n_known];
            for (std::int64_t row = 0; row < node.n_rows; ++row) {
                std::uint8_t* to = s.zeros + node.first + row * node.stride;
                if (node.kind == kMaxima) {
                    *to =
                        entry_zeros(node, node.starts[row] + cell.winners[node.first_group + row]);
                    continue;
                }
                unsigned all = kAllCorners;
                if (node.kind == kSparse) {
                    for (std::int64_t j = node.starts[row]; j < node.starts[row + 1]; ++j)
                        all &= s.zeros[node.columns[j]];
                    *to = node.bias[row] == 0.0 ? static_cast<std::uint8_t>(all) : 0;
                    continue;
                }
                for (std::int64_t tap = 0; tap < node.n_taps; ++tap) {
                    const std::int64_t base = node.columns[row * node.n_taps + tap];
                    if (base < 0) continue;
                    for (std::int64_t c = 0; c < node.n_channels; ++c) all &= s.zeros[base + c];
                }
                for (std::int64_t k = 0; k < node.n_columns; ++k)
                    to[k] = node.bias[k] == 0.0 ? static_cast<std::uint8_t>(all) : 0;
            }
        }
    }
    std::uint8_t entry_zeros(const GraphNode& node, std::int64_t entry) const {
        if (node.bias[entry] != 0.0) return 0;
        return node.columns[entry] < 0 ? kAllCorners : s.zeros[node.columns[entry]];
    }
    // The corners at which a side of a cell vanishes.
    int side_zeros(const Wall& wall) const {
        if (wall.layer < 0) return wall.group < 8 ? s.zeros[cell.n_slots + wall.group] : 0;
        const GraphNode& node = cell.nodes[wall.layer];
        const std::int64_t start = node.starts[wall.group];
        return entry_zeros(node, start + wall.winner) & entry_zeros(node, start + wall.rival);
    }
    // Whether a gap is zero at a vertex because everything from which it is computed is zero there.
    // No three corners are collinear. Therefore a form that vanishes at D + 1 corners vanishes
    // everywhere, and a form that vanishes at both ends of a side vanishes on it. Sides of a cell
    // that have a corner in common meet there.
    bool is_zero_there(const Wall& gap, const Wall& one, const Wall& other) {
        find_zeros(gap.layer);
        const int zeros = side_zeros(gap);
        if (zeros == 0) return false;
        const auto is_on = [&](const Wall& wall) {
            const int ends = side_zeros(wall);
            return wall.layer < 0 && ends != 0 && (zeros & ends) == ends;
        };
        return __builtin_popcount(static_cast<unsigned>(zeros)) > D || is_on(one) || is_on(other) ||
               (zeros & side_zeros(one) & side_zeros(other)) != 0;
    }

    void compose_stale(std::int64_t end) {
        for (std::int64_t i = 0; i < end; ++i) {
            if (!s.is_stale[i]) continue;
            compose_graph<D>(cell, i, i + 1);
            s.is_stale[i] = 0;
        }
    }

    // The sign of a gap at a vertex; kStopped if the caller cannot determine it.
    int sign(const Wall& wall, const Form<D>& form, Side<D>* at, int n, int i) {
        const int quick = sign_at_side(form, at[i]);
        if (quick != 0) return quick;
        const int last = D == 1 ? i : i > 0 ? i - 1 : n - 1;
        const Wall &before = at[last].wall, &here = at[i].wall;
        if (is_known_zero(wall, before, here) || is_zero_there(wall, before, here)) return 0;
        compose_stale(wall.layer);
        for (int k = 0; k < n; ++k)
            if (at[k].wall.layer >= 0) at[k].line = gap(at[k].wall);
        place(at, n);
        const int again = sign_at_side(gap(wall), at[i]);
        if (again != 0) return again;
        const Wall walls[] = {wall, before, here};
        s.n_asked++;
        return s.ask(&walls[0].layer);
    }

    // The signs of a gap at the vertices of a cell: bit 1 for positive, bit 2 for negative; -1 if
    // they could not be determined. Undecided vertices are decided only as long as they matter.
    int sides_of(const Wall& wall, Side<D>* at, int n) {
        const Form<D> form = gap(wall);
        int found = 0;
        for (int i = 0; i < n; ++i) {
            const int sign = sign_at_side(form, at[i]);
            found |= sign > 0 ? 1 : sign < 0 ? 2 : 0;
        }
        // Deciding one vertex may provide information about the others, so no vertex is skipped.
        for (int i = 0; i < n && found != 3; ++i) {
            const int decided = sign(wall, form, at, n, i);
            if (decided == kStopped) return -1;
            found |= decided > 0 ? 1 : decided < 0 ? 2 : 0;
        }
        return found;
    }

    // Visit the gaps between an entry of a group and the other entries.
    template <class Visit>
    void for_leads(const GraphNode& node, std::int64_t group, std::int32_t winner,
                   const Visit& visit) const {
        const std::int64_t start = node.starts[group], end = node.starts[group + 1];
        const std::int64_t other = end - start == 2 ? start + 1 - winner : -1;
        // A ReLU unit: the form of one slot, or its negative.
        if (other >= 0 && node.bias[start] == 0.0 && node.bias[start + 1] == 0.0 &&
            (node.columns[start] < 0) != (node.columns[start + 1] < 0)) {
            const std::int64_t entry = node.columns[start] < 0 ? start + 1 : start;
            if (node.weights[entry] == 1.0) {
                const std::int64_t slot = node.columns[entry];
                const double sign = entry == other ? -1.0 : 1.0;
                GraphForm<D> lead;
                for (int k = 0; k <= D; ++k) lead.at[k] = sign * column_of<D>(cell, k)[slot];
                lead.radius = cell.radii[slot];
                return visit(lead);
            }
        }
        const GraphForm<D> leader = entry_of<D>(cell, node, start + winner);
        for (std::int64_t j = start; j < end; ++j)
            if (j != start + winner && !node.is_repeated[j])
                visit(difference<D>(cell, leader, entry_of<D>(cell, node, j)));
    }

    // A distance from a point, in the maximum norm, within which the current winner leads; 0 if
    // none is known.
    double reach_of(const GraphNode& node, std::int64_t group, const double* centre) const {
        double reach = kInfinity;
        for_leads(node, group, cell.winners[node.first_group + group],
                  [&](const GraphForm<D>& gap) {
                      const Lead lead = lead_at<D>(centre, gap);
                      const double within = lead.fall > 0.0 ? lead.value / lead.fall : kInfinity;
                      if (!(lead.value > 0.0)) reach = 0.0;
                      if (within < reach) reach = within;
                  });
        return reach * (1.0 - 0x1p-30);
    }

    bool leads_on(const GraphNode& node, std::int64_t group, const Surrounding<D>& box) const {
        bool leads = true;
        for_leads(node, group, cell.winners[node.first_group + group],
                  [&](const GraphForm<D>& gap) {
                      double away = 0.0;
                      for (int k = 0; k < D; ++k) away += magnitude(gap.at[k]) * box.half[k];
                      leads = leads && lead_at<D>(box.centre, gap).value > away * kGraphUp + kTiny;
                  });
        return leads;
    }

    // List the entries of a group that no other single entry exceeds on the whole cell; among
    // entries that are equal on it, only the first. Returns their number, or -1 if it could not be
    // determined.
    int candidates(int node, int group, Side<D>* at, int n) {
        const GraphNode& maxima = cell.nodes[node];
        const std::int64_t start = maxima.starts[group], size = maxima.starts[group + 1] - start;
        const std::int32_t at_hand = cell.winners[maxima.first_group + group];
        std::int32_t* entries = s.entries;
        int n_entries = 0;
        // The current winner comes first: it usually exceeds all others.
        if (!maxima.is_repeated[start + at_hand]) entries[n_entries++] = at_hand;
        for (std::int32_t j = 0; j < size; ++j)
            if (j != at_hand && !maxima.is_repeated[start + j]) entries[n_entries++] = j;
        for (int i = 0; i < n_entries; ++i) {
            int kept = i + 1;
            bool is_beaten = false;
            for (int j = i + 1; j < n_entries; ++j) {
                const int found =
                    is_beaten ? 3 : sides_of({node, group, entries[i], entries[j]}, at, n);
                if (found < 0) return -1;
                const bool is_first = entries[i] < entries[j];
                if (found == 1 || (found == 0 && is_first)) continue;
                is_beaten |= found == 2 || found == 0;
                entries[kept++] = entries[j];
            }
            n_entries = kept;
            if (!is_beaten) continue;
            for (int j = i; j + 1 < n_entries; ++j) entries[j] = entries[j + 1];
            --n_entries;
            --i;
        }
        return n_entries;
    }

    void note(std::int64_t group) {
        if (s.is_noted[group]) return;
        s.is_noted[group] = 1;
        s.noted[s.n_noted++] = static_cast<std::int32_t>(group);
    }

    // Change the winners of the groups of a node that are listed in `changes`.
    void change_winners(int node, int n_changes) {
        const GraphNode& maxima = cell.nodes[node];
        if (s.n_known > node) s.n_known = node;
        for (int i = 0; i < n_changes; ++i) {
            const std::int32_t group = s.changes[2 * i], winner = s.changes[2 * i + 1];
            const std::int64_t place = maxima.first_group + group, first = s.member_starts[place];
            const std::int64_t n_members = s.member_starts[place + 1] - first;
            for (std::int64_t m = 0; m < n_members; ++m)
                note(maxima.first_group + s.members[first + m]);
            if (n_changes <= kFewFlips) {
                flip_groups<D>(cell, node, n_members, s.members + first, winner, s.is_stale);
                s.n_flips++;
                continue;
            }
            for (std::int64_t m = 0; m < n_members; ++m)
                cell.winners[maxima.first_group + s.members[first + m]] = winner;
        }
        if (n_changes > kFewFlips) {
            compose_graph<D>(cell, node, cell.n_nodes);
            for (std::int64_t i = node; i < cell.n_nodes; ++i) s.is_stale[i] = 0;
        } else if (s.n_flips > kMostFlips) {
            compose_stale(cell.n_nodes);
            s.n_flips = 0;
        }
    }

    // Decide a group on a cell. Returns whether it is open, or -1 if this could not be determined.
    // A winner other than the current one is added to `changes`.
    int decide_group(int node, std::int32_t group, const Surrounding<D>& box, Side<D>* at, int n,
                     int& n_changes) {
        const GraphNode& maxima = cell.nodes[node];
        if (leads_on(maxima, group, box)) return 0;
        const int n_entries = candidates(node, group, at, n);
        if (n_entries < 0) return -1;
        if (n_entries > 1) return 1;
        if (s.entries[0] == cell.winners[maxima.first_group + group]) return 0;
        s.changes[2 * n_changes] = group;
        s.changes[2 * n_changes++ + 1] = s.entries[0];
        return 0;
    }

    // Decide groups of a node on a cell, and list the open ones. Returns their number, or -1 if it
    // could not be determined.
    int decide_list(int node, const std::int32_t* list, int n_list, std::int32_t* open, Side<D>* at,
                    int n) {
        const Surrounding<D> box = surrounding<D>(at, n);
        int n_open = 0, n_changes = 0;
        for (int i = 0; i < n_list; ++i) {
            const int is_open = decide_group(node, list[i], box, at, n, n_changes);
            if (is_open < 0) return -1;
            if (is_open) open[n_open++] = list[i];
        }
        if (n_changes > 0) change_winners(node, n_changes);
        return n_open;
    }

    // The same for all groups of a node. For each group, the distance from the node's centre within
    // which the winner leads is stored until the group's forms change, so that most groups need not
    // be examined on nearby cells.
    int decide_all(int node, std::int32_t* open, Side<D>* at, int n) {
        const GraphNode& maxima = cell.nodes[node];
        const Surrounding<D> box = surrounding<D>(at, n);
        double* reaches = cell.reaches + maxima.first_group;
        const std::uint8_t* is_looked_at = s.is_looked_at + maxima.first_group;
        double* centre = s.centres + D * node;
        const auto farthest = [&] {
            double distance = 0.0;
            for (int k = 0; k < D; ++k) {
                const double off = magnitude(box.centre[k] - centre[k]) + box.half[k];
                distance = off <= distance ? distance : off;
            }
            return distance * kGraphUp + kTiny;
        };
        const auto n_beyond = [&](std::int64_t begin, std::int64_t end, double distance) {
            std::int64_t n = 0;
            for (std::int64_t g = begin; g < end; ++g) n += !(reaches[g] > distance);
            return n;
        };
        double distance = farthest();
        if (4 * n_beyond(0, maxima.n_rows, distance) > maxima.n_rows) {
            for (int k = 0; k < D; ++k) centre[k] = box.centre[k];
            for (std::int64_t g = 0; g < maxima.n_rows; ++g) reaches[g] = -1.0;
            distance = farthest();
        }
        int n_open = 0, n_changes = 0;
        for (std::int64_t begin = 0; begin < maxima.n_rows; begin += kAtOnce) {
            const std::int64_t end =
                begin + kAtOnce < maxima.n_rows ? begin + kAtOnce : maxima.n_rows;
            if (n_beyond(begin, end, distance) == 0) continue;
            for (std::int64_t g = begin; g < end; ++g) {
                if (reaches[g] > distance) continue;
                if (reaches[g] < 0.0)
                    reaches[g] = is_looked_at[g] ? reach_of(maxima, g, centre) : kInfinity;
                if (reaches[g] > distance || !is_looked_at[g]) continue;
                const std::int32_t group = static_cast<std::int32_t>(g);
                const int is_open = decide_group(node, group, box, at, n, n_changes);
                if (is_open < 0) return -1;
                if (is_open) open[n_open++] = group;
            }
        }
        if (n_changes > 0) change_winners(node, n_changes);
        return n_open;
    }

    // Write the part of a cell where an entry wins. Return the number of its sides, 0 if there is
    // no such part, or -1 if it could not be determined. `spare` is space for another part.
    int part(int node, int group, int entry, int n_entries, const Side<D>* whole, int n,
             Side<D>* to, Side<D>* spare) {
        for (int i = 0; i < n; ++i) to[i] = whole[i];
        for (int j = 0; j < n_entries; ++j) {
            const int rival = s.entries[j];
            if (rival == entry) continue;
            const Wall wall{node, group, entry, rival};
            const int found = sides_of(wall, to, n);
            if (found < 0) return -1;
            if (found == 2 || (found == 0 && rival < entry)) return 0;
            if (found != 3) continue;
            const Form<D> form = gap(wall);
            for (int i = 0; i < n; ++i) {
                const int decided = sign(wall, form, to, n, i);
                if (decided == kStopped) return -1;
                s.signs[i] = static_cast<std::int8_t>(decided);
            }
            const int n_part = part_of(to, n, s.signs, form, wall, spare);
            for (int i = 0; i < n_part; ++i) to[i] = spare[i];
            n = n_part;
        }
        return n;
    }

    void write(const GraphItem& item) {
        hm_graph_pieces& out = *s.pieces;
        for (std::int64_t i = 0; i < s.n_noted; ++i) {
            const std::int32_t group = s.noted[i];
            s.is_noted[group] = 0;
            if (s.written[group] == cell.winners[group]) continue;
            s.written[group] = cell.winners[group];
            out.changes[2 * out.n_changes] = group;
            out.changes[2 * out.n_changes++ + 1] = cell.winners[group];
        }
        s.n_noted = 0;
        for (std::int64_t i = 0; i < item.n_sides; ++i) {
            const Side<D>& side = sides[item.first_side + i];
            double* vertex = out.vertices + (D + 1) * out.n_vertices;
            for (int k = 0; k < D; ++k) vertex[k] = coordinate(side, k);
            vertex[D] = radius_at(side);
            const bool is_wall = side.wall.layer >= 0;
            std::int32_t* wall = out.walls + 3 * out.n_vertices++;
            wall[0] = side.wall.layer;
            wall[1] = side.wall.group;
            wall[2] = is_wall ? side.wall.rival : -1;
        }
        double* map = out.maps + (D + 2) * s.n_outputs * out.n_pieces;
        for (int k = 0; k <= D; ++k)
            for (std::int64_t i = 0; i < s.n_outputs; ++i)
                *map++ = column_of<D>(cell, k)[s.outputs[i]];
        for (std::int64_t i = 0; i < s.n_outputs; ++i) *map++ = cell.radii[s.outputs[i]];
        out.n_pieces++;
        out.vertex_ends[out.n_pieces - 1] = out.n_vertices;
        out.change_ends[out.n_pieces - 1] = out.n_changes;
    }

    // Split the cell of the top item by the first open group; the parts replace it.
    GraphStatus split(const GraphItem& item, int node, const std::int32_t* open, int n_open) {
        const std::int32_t group = open[0],
                           at_hand = cell.winners[cell.nodes[node].first_group + group];
        const int n = static_cast<int>(item.n_sides);
        Side<D>* whole = sides + item.first_side;
        const int n_entries = candidates(node, group, whole, n);
        if (n_entries < 0) return kGraphStopped;
        const std::int64_t most = n + n_entries;
        if (item.first_side + n + (n_entries + 1) * most > s.side_room ||
            s.n_items + n_entries > s.item_room || most > s.side_room)
            return kGraphShort;
        // On a segment, parts are ordered from left to right: an entry is left of another if it is
        // larger at the left end. The part found first is the last on the stack. In the plane, this
        // is the part of the current winner.
        for (int i = 0; i < n_entries; ++i) {
            int last = i;
            for (int j = i + 1; j < n_entries; ++j) {
                if (D == 2) {
                    if (s.entries[last] == at_hand) last = j;
                    continue;
                }
                const Wall wall{node, group, s.entries[j], s.entries[last]};
                const int sign_left = sign(wall, gap(wall), whole, n, 0);
                if (sign_left == kStopped) return kGraphStopped;
                if (sign_left < 0) last = j;
            }
            const std::int32_t entry = s.entries[i];
            s.entries[i] = s.entries[last];
            s.entries[last] = entry;
        }
        Side<D>* to = whole + n;
        std::int64_t n_parts = 0;
        for (int i = 0; i < n_entries; ++i) {
            const int n_part = part(node, group, s.entries[i], n_entries, whole, n, to, to + most);
            if (n_part < 0) return kGraphStopped;
            if (n_part == 0) continue;
            items[s.n_items + n_parts] = {node,       to - sides, n_part,      open + 1 - s.open,
                                          n_open - 1, group,      s.entries[i]};
            ++n_parts;
            to += n_part;
        }
        // Move the parts over the cell that has been split.
        Side<D>* from = whole + n;
        const std::int64_t n_moved = to - from;
        for (std::int64_t i = 0; i < n_moved; ++i) whole[i] = from[i];
        for (std::int64_t i = 0; i < n_parts; ++i) {
            items[s.n_items - 1 + i] = items[s.n_items + i];
            items[s.n_items - 1 + i].first_side -= n;
        }
        s.n_items += n_parts - 1;
        return kGraphCounted;
    }

    GraphStatus step() {
        const GraphItem item = items[s.n_items - 1];
        const int n = static_cast<int>(item.n_sides);
        hm_graph_pieces& out = *s.pieces;
        if (out.n_vertices + n > out.vertex_room || out.n_pieces == out.piece_room ||
            out.n_changes + s.n_groups > out.change_room)
            return kGraphFull;
        Side<D>* at = sides + item.first_side;
        if (item.group >= 0) {
            const GraphNode& maxima = cell.nodes[item.node];
            if (cell.winners[maxima.first_group + item.group] != item.winner) {
                s.changes[0] = static_cast<std::int32_t>(item.group);
                s.changes[1] = static_cast<std::int32_t>(item.winner);
                change_winners(static_cast<int>(item.node), 1);
            }
        }
        const std::int64_t top = item.first_open + item.n_open;
        const std::int32_t* list = item.group < 0 ? nullptr : s.open + item.first_open;
        std::int32_t* open = s.open + top;
        for (int node = static_cast<int>(item.node); node < cell.n_nodes; ++node) {
            const GraphNode& maxima = cell.nodes[node];
            if (maxima.kind == kMaxima) {
                const int n_list = static_cast<int>(list ? item.n_open : maxima.n_rows);
                if (top + n_list > s.open_room) return kGraphShort;
                const int n_open = list ? decide_list(node, list, n_list, open, at, n)
                                        : decide_all(node, open, at, n);
                if (n_open < 0) return kGraphStopped;
                if (n_open > 0) return split(item, node, open, n_open);
            }
            list = nullptr;
        }
        write(item);
        --s.n_items;
        return kGraphCounted;
    }
};

}  // namespace detail

// Push the domain on the stack: sides (n, D + 1), positive inside, with radii, in cyclic order.
template <int D>
void begin_graph_search(GraphSearch& s, std::int64_t n, const double* lines, const double* radii) {
    Side<D>* sides = static_cast<Side<D>*>(s.sides);
    for (std::int64_t i = 0; i < n; ++i) {
        Side<D>& side = sides[i];
        side = {};
        for (int k = 0; k < D; ++k) side.line.a[k] = lines[(D + 1) * i + k];
        side.line.c = lines[(D + 1) * i + D];
        side.line.slope_radius = slope_radius(radii[i], s.cell->scale);
        side.line.offset_radius = radii[i];
        side.wall = {-1, static_cast<int>(i), 0, 0};
    }
    detail::place(sides, static_cast<int>(n));
    s.items[0] = {0, 0, n, 0, 0, -1, 0};
    s.n_items = 1;
    compose_graph<D>(*s.cell, 0, s.cell->n_nodes);
}

// Continue until the search is complete, `n_pieces` more cells have been written, a capacity is
// exceeded, or a sign is missing. If another thread sets `is_stopped`, end as if n_pieces had been
// written.
template <int D>
GraphStatus run_graph_search(GraphSearch& s, std::int64_t n_pieces,
                             const std::int32_t* is_stopped) {
    detail::Searching<D> searching(s);
    const std::int64_t enough = s.pieces->n_pieces + n_pieces;
    while (s.n_items > 0) {
        if (s.pieces->n_pieces >= enough) return kGraphCounted;
        const GraphStatus status = searching.step();
        if (status != kGraphCounted) return status;
        if (__atomic_load_n(is_stopped, __ATOMIC_RELAXED) != 0) break;
    }
    return s.n_items > 0 ? kGraphCounted : kGraphDone;
}

}  // namespace hardmax
