// The sets of forms that are the k largest on an open set of the plane, and the walls between these
// sets.
//
// The cell of a set is convex and contains no line (the slopes are not collinear). Hence it is
// traversed starting from one of its vertices: counter-clockwise until the walk closes or goes to
// infinity, and in the latter case also clockwise. Another set lies across each wall; it is found
// from the forms that tie along the wall.
//
// A wall is where a form i of the set ties with a form j outside it. Along the line f_i = f_j, to
// the left of the outward normal a_j - a_i, a form h gains on both at the rate (a_j - a_i) x (a_h -
// a_i), which has the sign of turn(i, j, h). The wall ends where the first form of the set falls to
// the common value or the first form outside rises to it; forms that tie at the vertex just left
// cannot do so again.
//
// Forms are distinct, each with a multiplicity. The k largest forms consist of some forms with all
// their copies and, if k falls between two of these counts, some copies of one more form, the
// *part*.
#pragma once
#include "lanes.hpp"
#include "lifted.hpp"

namespace hardmax {

// A cell to be traversed: it reaches the vertex along the wall of i and j in this sense (1 is
// counter-clockwise, -1 clockwise).
struct CellStart {
    int32_t i, j;
    int32_t vertex, n_tied;  // the forms that tie at the vertex, stored in `tied`
    int32_t sense;
};

struct OrderK {
    LiftedForms forms;
    const int32_t* multiplicity;
    int32_t k, key_length;  // the forms of a set, ascending, padded with n; then the part, or n
    int32_t room_cells, room_walls, room_tied, table_size;
    int32_t n_cells, n_done, n_walls, n_tied;
    int32_t* keys;  // (room_cells, key_length)
    CellStart* starts;
    int32_t* first_wall;       // (room_cells + 1)
    int32_t* walls;            // (room_walls, 2)
    int32_t* tied;             // (room_tied)
    int32_t* table;            // (table_size): cells by hash, or -1
    double* coordinate[3][2];  // each (n, padded): high and low parts of the floats of the forms
    double* side;         // (n, padded): 1 for forms of the set, -1 for others, 0 for forms that
                          // tie
    double* soonest;      // (n, padded)
    int32_t* vertex;      // (n): the forms that tie at the current vertex
    int32_t* across;      // (n)
    int32_t* candidates;  // (n)
    int32_t* key;         // (key_length)
};

inline OrderK take_order_k(LiftedForms forms, const int32_t* multiplicity, int32_t k,
                           int32_t room_cells, Arena& arena) {
    OrderK o{};
    const size_t n = static_cast<size_t>(forms.n), room = static_cast<size_t>(room_cells);
    take_lifted(forms, arena);
    o.forms = forms;
    o.multiplicity = multiplicity;
    o.k = k;
    o.key_length = least(k, forms.n) + 1;
    o.room_cells = room_cells;
    o.room_walls = 8 * room_cells;
    o.room_tied = 12 * room_cells + 4 * forms.n;
    o.table_size = 16;
    while (o.table_size < 2 * room_cells) o.table_size *= 2;
    o.keys = arena.take<int32_t>(room * static_cast<size_t>(o.key_length));
    o.starts = arena.take<CellStart>(room);
    o.first_wall = arena.take<int32_t>(room + 1);
    o.walls = arena.take<int32_t>(2 * static_cast<size_t>(o.room_walls));
    o.tied = arena.take<int32_t>(static_cast<size_t>(o.room_tied));
    o.table = arena.take<int32_t>(static_cast<size_t>(o.table_size));
    const size_t wide = static_cast<size_t>(padded(forms.n));
    for (auto& axis : o.coordinate)
        for (double*& row : axis) row = arena.take<double>(wide);
    o.side = arena.take<double>(wide);
    o.soonest = arena.take<double>(wide);
    o.vertex = arena.take<int32_t>(n);
    o.across = arena.take<int32_t>(n);
    o.candidates = arena.take<int32_t>(n);
    o.key = arena.take<int32_t>(static_cast<size_t>(o.key_length));
    return o;
}

namespace detail {

inline int32_t part_of(const OrderK& o, const int32_t* key) { return key[o.key_length - 1]; }

// The sign of <a_g - a_h, a_j - a_i> if all four slopes are collinear.
inline int order_along(const LiftedForms& f, int g, int h, int i, int j) {
    Limb* d = f.scratch;
    for (int axis = 0; axis < 2; axis++) {
        subtract(slope_of(f, j, axis), slope_of(f, i, axis), f.slope_limbs, d);
        const int normal = sign(d, f.slope_limbs);
        if (normal == 0) continue;
        subtract(slope_of(f, g, axis), slope_of(f, h, axis), f.slope_limbs, d);
        return normal * sign(d, f.slope_limbs);
    }
    return 0;
}

// Write, for each form, a lower bound on the position at which it meets the wall of i and j, along
// the wall in the given sense; infinity if it never does. Returns an upper bound on the position of
// the first meeting.
//
// With v = a_j - a_i and c = c_j - c_i, the wall is at -c v / <v, v> + t v' / <v, v>, where v' is v
// turned left. There, a form with the differences d, e to form i exceeds form i by (N + t R) / <v,
// v>, where N = <v, v> e - c <v, d> and R = v x d. The form approaches if R does not have the sign
// of its side, and it meets the wall at t = side N / |R|. The errors of differences are 4 u
// relative plus a tail, and differences are at most 2. So the error of R is at most r = 16 u times
// its two products plus 16 tails, and the error of N is at most 32 u times its terms plus 64 tails,
// unless v is so short that the tail is more than u / 4 of it. With w = 1 / (|R| - r), t differs
// from side N w by at most w (error of N + 2 |N| r w).
inline double meetings(OrderK& o, int i, int j, int sense) {
    const LiftedForms& f = o.forms;
    const double v1 = difference(f.column[0][j], f.column[0][i]);
    const double v2 = difference(f.column[1][j], f.column[1][i]);
    const double v3 = difference(f.column[2][j], f.column[2][i]);
    const double square = v1 * v1 + v2 * v2;
    const Lanes vx = all(v1), vy = all(v2), c = all(v3), norm = all(square), turned = all(sense);
    const Lanes never = all(kInfinity), zero = all(0.0), one = all(1.0);
    const Lanes u16 = all(16.0 * kU), u32 = all(32.0 * kU), tails16 = all(16.0 * kTail),
                tails64 = all(64.0 * kTail), twice = all(2.0), up = all(1.0 + 0x1p-20);
    const Lanes shortest = all(0x1p-86);
    Lanes first = never;
    const Doubled from[3] = {f.column[0][i], f.column[1][i], f.column[2][i]};
    const Lanes x0 = all(from[0].high), x1 = all(from[0].low), y0 = all(from[1].high),
                y1 = all(from[1].low), c0 = all(from[2].high), c1 = all(from[2].low);
    const double *const x = o.coordinate[0][0], *const x_low = o.coordinate[0][1],
                        *const y = o.coordinate[1][0], *const y_low = o.coordinate[1][1],
                        *const z = o.coordinate[2][0], *const z_low = o.coordinate[2][1],
                        *const sides = o.side;
    double* const soonest_of = o.soonest;
    const int n = f.n;
    for (int h = 0; h < n; h += kLanes) {
        const Lanes dx = (load(x + h) - x0) + (load(x_low + h) - x1);
        const Lanes dy = (load(y + h) - y0) + (load(y_low + h) - y1);
        const Lanes e = (load(z + h) - c0) + (load(z_low + h) - c1), side = load(sides + h);
        const Lanes p = vx * dy, q = vy * dx, r = norm * e, s1 = vx * dx, s2 = vy * dy;
        const Lanes rate = turned * (p - q), excess = r - c * (s1 + s2);
        const Lanes rate_error = u16 * (absolute(p) + absolute(q)) + tails16;
        const Lanes excess_error =
            u32 * (absolute(r) + absolute(c) * (absolute(s1) + absolute(s2))) + tails64;
        const Lanes slowest = absolute(rate) - rate_error;
        const Lanes w = one / slowest;
        const Lanes t = side * excess * w;
        const Lanes error = w * (excess_error + twice * absolute(excess) * rate_error * w) * up;
        const LaneBits is_clear = (slowest > zero) & (norm > shortest) & (error < never);
        const LaneBits is_coming = side * rate < zero;
        const LaneBits is_never = (side == zero) | (is_clear & ~is_coming);
        const Lanes soonest = choose(is_clear, t - error, -never);
        const Lanes latest = choose(is_clear, t + error, never);
        store(soonest_of + h, choose(is_never, never, soonest));
        const Lanes ends = choose(is_never, never, latest);
        first = ends < first ? ends : first;
    }
    double ends[kLanes], limit = kInfinity;
    store(ends, first);
    for (double end : ends) limit = end < limit ? end : limit;
    return limit;
}

// Follow the wall of i and j from the current vertex to its other end, which becomes the current
// vertex. Returns the number of forms that tie there, or 0 if there is no such vertex.
inline int follow(OrderK& o, int i, int j, int sense, int n_tied) {
    const LiftedForms& f = o.forms;
    // The forms that tie along the wall remain.
    int n_stay = 0;
    for (int m = 0; m < n_tied; m++) o.across[m] = static_cast<int32_t>(o.side[o.vertex[m]]);
    for (int m = 0; m < n_tied; m++) o.side[o.vertex[m]] = 0.0;
    const double limit = meetings(o, i, j, sense);
    for (int m = 0; m < n_tied; m++) o.side[o.vertex[m]] = o.across[m];
    for (int m = 0; m < n_tied; m++)
        if (turn(f, i, j, o.vertex[m]) == 0) o.vertex[n_stay++] = o.vertex[m];
    int n_candidates = 0;
    const Lanes last = all(limit < kInfinity ? limit : kBeyond);
    for (int block = 0; block < f.n; block += kLanes) {
        const LaneBits is_early = load(o.soonest + block) <= last;
        if (!(is_early[0] | is_early[1] | is_early[2] | is_early[3])) continue;
        for (int lane = 0; lane < kLanes; lane++)
            if (is_early[lane]) o.candidates[n_candidates++] = block + lane;
    }
    int n = n_stay, first = -1, first_turn = 0;
    for (int m = 0; m < n_candidates; m++) {
        const int h = o.candidates[m];
        const int rate = turn(f, i, j, h);
        if (!(o.side[h] * (sense * rate) < 0.0)) continue;
        if (first >= 0) {
            const double later = o.side[h] * (above(f, i, j, first, h) * first_turn);
            if (later > 0.0) continue;
            if (later < 0.0) n = n_stay;
        }
        if (n == n_stay) first = h, first_turn = rate;
        o.vertex[n++] = h;
    }
    return first >= 0 ? n : 0;
}

// The wall of the cell that is next at the vertex in the given sense: among all forms i of the set
// and j outside it that tie there, the pair whose normal a_j - a_i is turned furthest.
inline void next_wall(const OrderK& o, int n_tied, int32_t part, int sense, int& i, int& j) {
    const int32_t n = o.forms.n;
    i = j = -1;
    const auto offer = [&](int32_t g, int32_t h) {
        if (i >= 0 && sense * turn_of_normals(o.forms, i, j, g, h) <= 0) return;
        i = g, j = h;
    };
    for (int a = 0; a < n_tied; a++) {
        const int32_t g = o.vertex[a];
        if (part < n) {
            if (g != part) o.side[g] > 0.0 ? offer(g, part) : offer(part, g);
            continue;
        }
        if (o.side[g] < 0.0) continue;
        for (int b = 0; b < n_tied; b++)
            if (o.side[o.vertex[b]] < 0.0) offer(g, o.vertex[b]);
    }
}

inline void set_sides(OrderK& o, const int32_t* key, double inside, double part) {
    for (int m = 0; m + 1 < o.key_length && key[m] < o.forms.n; m++) o.side[key[m]] = inside;
    if (part_of(o, key) < o.forms.n) o.side[part_of(o, key)] = part;
}

// Fill a key up to k with the first of the ranked forms, then sort it.
inline void select(OrderK& o, int32_t* key, int length, const int32_t* ranked, int n_ranked) {
    const int32_t n = o.forms.n;
    int32_t missing = o.k, part = n;
    for (int m = 0; m < length; m++) missing -= o.multiplicity[key[m]];
    for (int m = 0; m < n_ranked && missing > 0; m++) {
        if (missing < o.multiplicity[ranked[m]]) {
            part = ranked[m];
            break;
        }
        key[length++] = ranked[m];
        missing -= o.multiplicity[ranked[m]];
    }
    for (int m = 1; m < length; m++) {
        const int32_t form = key[m];
        int to = m;
        for (; to > 0 && key[to - 1] > form; to--) key[to] = key[to - 1];
        key[to] = form;
    }
    for (int m = length; m + 1 < o.key_length; m++) key[m] = n;
    key[o.key_length - 1] = part;
}

// The slot of a key in the table: the slot of its cell, or an empty one.
inline int32_t place_of(const OrderK& o, const int32_t* key) {
    uint64_t hash = 14695981039346656037u;
    for (int m = 0; m < o.key_length; m++)
        hash = (hash ^ static_cast<uint64_t>(key[m])) * 1099511628211u;
    hash ^= hash >> 29;
    for (uint64_t at = hash;; at++) {
        const int32_t place = static_cast<int32_t>(at & static_cast<uint64_t>(o.table_size - 1));
        if (o.table[place] < 0) return place;
        const int32_t* other = o.keys + static_cast<int64_t>(o.table[place]) * o.key_length;
        int m = 0;
        while (m < o.key_length && other[m] == key[m]) m++;
        if (m == o.key_length) return place;
    }
}

// Record a wall of the current cell, and the cell across if it is new. `vertex_at` is the position
// of the forms tied at the current vertex, or -1, in which case it is set. Returns false if the
// capacity is exceeded.
inline bool cross(OrderK& o, const int32_t* key, int i, int j, int sense, int n_tied,
                  int32_t& vertex_at) {
    if (o.n_walls == o.room_walls) return false;
    o.walls[2 * o.n_walls] = i;
    o.walls[2 * o.n_walls + 1] = j;
    o.n_walls++;
    // The forms that tie along the wall, in their order beyond it; the other forms of the set stay
    // in it.
    int n_across = 0;
    for (int m = 0; m < n_tied; m++) {
        const int32_t h = o.vertex[m];
        if (h != i && h != j && turn(o.forms, i, j, h) != 0) continue;
        int to = n_across++;
        for (; to > 0 && order_along(o.forms, h, o.across[to - 1], i, j) > 0; to--)
            o.across[to] = o.across[to - 1];
        o.across[to] = h;
    }
    int length = 0;
    for (int m = 0; m + 1 < o.key_length && key[m] < o.forms.n; m++) {
        bool ties = false;
        for (int a = 0; a < n_across; a++) ties = ties || o.across[a] == key[m];
        if (!ties) o.key[length++] = key[m];
    }
    select(o, o.key, length, o.across, n_across);
    const int32_t place = place_of(o, o.key);
    if (o.table[place] >= 0) return true;
    if (o.n_cells == o.room_cells) return false;
    if (vertex_at < 0) {
        if (o.n_tied + n_tied > o.room_tied) return false;
        vertex_at = o.n_tied;
        for (int m = 0; m < n_tied; m++) o.tied[o.n_tied++] = o.vertex[m];
    }
    // In the order beyond the wall, the first form is in the new set, and the last is not.
    o.starts[o.n_cells] = {o.across[0], o.across[n_across - 1], vertex_at, n_tied, sense};
    for (int m = 0; m < o.key_length; m++)
        o.keys[static_cast<int64_t>(o.n_cells) * o.key_length + m] = o.key[m];
    o.table[place] = o.n_cells++;
    return true;
}

// Walk around a cell. Returns false if the capacity is exceeded.
inline bool walk_around(OrderK& o, int32_t cell) {
    const CellStart start = o.starts[cell];
    const int32_t* key = o.keys + static_cast<int64_t>(cell) * o.key_length;
    bool is_closed = false;
    for (int half = 0; half < 2 && !is_closed; half++) {
        const int sense = half == 0 ? start.sense : -start.sense;
        int n_tied = start.n_tied;
        int32_t vertex_at = start.vertex;
        for (int m = 0; m < n_tied; m++) o.vertex[m] = o.tied[start.vertex + m];
        if (half == 1) {
            // Go the other way, along the wall by which the cell was reached.
            if (!cross(o, key, start.i, start.j, sense, n_tied, vertex_at)) return false;
            n_tied = follow(o, start.i, start.j, sense, n_tied);
            vertex_at = -1;
        }
        while (n_tied > 0) {
            int i, j;
            next_wall(o, n_tied, part_of(o, key), sense, i, j);
            int n_met = 0;
            for (int m = 0; m < n_tied; m++)
                n_met += (o.vertex[m] == start.i || o.vertex[m] == start.j) &&
                         turn(o.forms, i, j, o.vertex[m]) == 0;
            if (!cross(o, key, i, j, sense, n_tied, vertex_at)) return false;
            is_closed = n_met == 2;
            if (is_closed) break;
            n_tied = follow(o, i, j, sense, n_tied);
            vertex_at = -1;
        }
    }
    return true;
}

}  // namespace detail

// Begin at a known wall: `key` is a set, and `tied` contains all forms that tie along the wall
// between i in the set and j outside.
inline void begin(OrderK& o, const int32_t* key, const int32_t* tied, int32_t n_tied, int32_t i,
                  int32_t j) {
    o.n_done = o.n_walls = o.n_tied = 0;
    o.first_wall[0] = 0;
    for (int32_t m = 0; m < o.table_size; m++) o.table[m] = -1;
    // The padding up to whole lanes always ties, so that it is never met.
    for (int h = 0; h < padded(o.forms.n); h++) {
        o.side[h] = h < o.forms.n ? -1.0 : 0.0;
        for (int axis = 0; axis < 3; axis++) {
            const Doubled x = h < o.forms.n ? o.forms.column[axis][h] : Doubled{0.0, 0.0};
            o.coordinate[axis][0][h] = x.high;
            o.coordinate[axis][1][h] = x.low;
        }
    }
    for (int m = 0; m < o.key_length; m++) o.keys[m] = key[m];
    o.table[detail::place_of(o, key)] = 0;
    o.n_cells = 1;
    detail::set_sides(o, key, 1.0, 0.0);
    int sense = 1, n = 0;
    for (int half = 0; half < 2 && n == 0; half++) {
        sense = half == 0 ? 1 : -1;
        for (int m = 0; m < n_tied; m++) o.vertex[m] = tied[m];
        n = detail::follow(o, i, j, sense, n_tied);
    }
    detail::set_sides(o, key, -1.0, -1.0);
    o.starts[0] = {i, j, 0, n, sense};
    for (int m = 0; m < n; m++) o.tied[o.n_tied++] = o.vertex[m];
}

enum OrderKStatus { kAllDone = 0, kBudgetSpent = 1, kNoRoom = 2 };

inline int32_t run(OrderK& o, int32_t budget) {
    while (o.n_done < o.n_cells) {
        if (budget-- <= 0) return kBudgetSpent;
        const int32_t* key = o.keys + static_cast<int64_t>(o.n_done) * o.key_length;
        detail::set_sides(o, key, 1.0, 0.0);
        const bool has_room = detail::walk_around(o, o.n_done);
        detail::set_sides(o, key, -1.0, -1.0);
        if (!has_room) return kNoRoom;
        o.first_wall[++o.n_done] = o.n_walls;
    }
    return kAllDone;
}

}  // namespace hardmax
