// The search: cells are split layer by layer, depth first.
//
// The top cell of the stack belongs to a layer and to the frame of that layer, which holds the
// forms, composed once for the whole region. The cell is split by one pending group after the
// other. When no pending group is left, the stream after the layer is composed, and the cell
// becomes a region of the next layer, or a cell of the result. All cells of one layer on the stack
// lie in the same region, because cells of deeper layers are above them. Hence one frame per layer
// is enough.
//
// Parts with smaller winners come first, and groups are processed in order, so cells are found in
// the lexicographic order of their signatures.
//
// An undecided sign leaves the stack unchanged. The search recomputes the top cell in twice the
// precision. If the sign stays undecided, the search returns kUnclear, and the caller splits the
// cell by its next group in exact arithmetic. Similarly, if a vertex is not known to a few digits,
// the search returns kImprecise, and the caller computes the vertices of the cell from its walls.
//
// A kind of cell, `Polygons` or `Polytopes<D>`, defines how cells are stored on the stack, and
// provides signs, cuts and the data stored for each cell.
#pragma once
#include "cells.hpp"
#include "chains.hpp"
#include "groups.hpp"
#include "sections.hpp"

namespace hardmax {

enum Status : int {
    kDone = 0,
    kBudget,
    kStackFull,
    kCellsFull,
    kCellLimit,
    kUnclear,
    kImprecise,
    kOngoing = -1,
};

// Positions of a cell whose layer has not been analysed yet: the cell is a region, or part of a
// region that another search has analysed, so that its typical winners are known.
constexpr int kNotEntered = -1, kPartEntered = -2;

// A cell still to be split: its place, its layer, the number of pending groups that are done (or
// one of the constants above), and the window of units for which its vertices are marked.
template <class Place>
struct Item {
    Place place;
    int layer, position;
    int window = -1;
    bool is_cut = false;  // its cells cannot be counted without constructing them
};

template <class Kind>
struct Search {
    static constexpr int dim = Kind::dim;
    using Place = typename Kind::Place;

    int dimension;  // must be the first member: it is read before the kind is known
    Path<dim> path;
    DoubledPath<dim> doubled;
    Path<dim> pure;  // forms composed afresh if the forms of `path` were replaced: see `cells.hpp`
    Contest contest;
    SignCounts counts;
    Kind cells;
    Item<Place>* items;
    int* winners;  // (room_items, most_groups): the winners of the completed pending groups
    int room_items, n_items;
    bool has_far;         // the domain is unbounded
    bool stores;          // cells are stored, not only counted
    bool counts_at_once;  // cells of the last layer may be counted without constructing them
    bool is_precise;      // the caller has set the vertices of the top cell
    std::int64_t n_cells;
    const std::int32_t* is_stopped;  // set by another thread when time is up; may be null

    bool must_stop() const {
        return is_stopped != nullptr && __atomic_load_n(is_stopped, __ATOMIC_RELAXED) != 0;
    }
    Item<Place>& top() { return items[n_items - 1]; }
    int* winners_of(int item) { return winners + std::size_t(item) * path.network->most_groups; }
};

// Replace the top cell by its parts. The parts lie above it, in the items above its own, where
// `position` holds the winner.
template <class Kind>
void settle_parts(Search<Kind>& s, const Item<typename Kind::Place>& item,
                  const typename Kind::Place& end, int n_parts) {
    const int top = s.n_items - 1;
    // The part with the smallest winner goes on top.
    auto* parts = s.items + top + 1;
    for (int i = 1; i < n_parts; i++) {
        const auto part = parts[i];
        int k = i;
        for (; k > 0 && parts[k - 1].position < part.position; k--) parts[k] = parts[k - 1];
        parts[k] = part;
    }
    s.cells.settle(item.place, end, parts, n_parts);
    const int* winners = s.winners_of(top);
    for (int i = 0; i < n_parts; i++) {
        int* own = s.winners_of(top + i);
        for (int p = 0; i > 0 && p < item.position; p++) own[p] = winners[p];
        own[item.position] = parts[i].position;
        s.items[top + i] = {parts[i].place, item.layer, item.position + 1, -1};
    }
    s.n_items = top + n_parts;
}

namespace detail {

// The difference of the forms of a later and an earlier rival on a chain.
template <class Kind>
struct Step {
    Form<1> form;
    Wall wall;

    Step(const GroupSplit<Kind>& split, int later, int earlier)
        : form(difference(split.frame, later, earlier, split.scale)),
          wall{split.l, split.group, later - split.first, earlier - split.first} {}
};

// Which of two forms of a group exceeds the other one on the cell on top: see `keep_chain`.
template <class Kind>
int compare_on_top(Search<Kind>& s, const GroupSplit<Kind>& split, int one, int other) {
    const Step<Kind> step(split, one, other);
    const Signs found =
        s.cells.signs_of(s.top().place, step.form, step.wall, split.known, s.counts);
    if (found.n_positive < 0 || (found.n_positive > 0 && found.n_negative > 0)) return kUndecided;
    if (found.n_positive == 0 && found.n_negative == 0)
        return contribute_alike(split.layer, split.frame, one, other) ? 0 : kUndecided;
    return found.n_positive > 0 ? 1 : -1;
}

// The signs of a step of a chain at both ends of the cell on top; False if one is not decided.
template <class Kind>
bool signs_at_ends(Search<Kind>& s, const GroupSplit<Kind>& split, const int* later,
                   int (&signs)[2]) {
    const Step<Kind> step(split, later[0], later[-1]);
    for (int v = 0; v < 2; v++)
        signs[v] =
            s.cells.sign_at(s.top().place, v, step.form, step.wall, split.known, s.counts);
    return signs[0] != kUndecided && signs[1] != kUndecided;
}

// The forms of a chain from `low` to `high` that may win on the cell on top: those before are exceeded by
// the next one on all of it, those after by the one before.
template <class Kind>
void narrow_chain(Search<Kind>& s, const GroupSplit<Kind>& split, const int* chain, int& low,
                  int& high) {
    int signs[2];
    // Steps cross zero from left to right, so that those that have are the first of them.
    for (int end = high; low < end;) {
        const int middle = (low + end) / 2;
        if (signs_at_ends(s, split, chain + middle + 1, signs) && signs[0] >= 0 && signs[1] >= 0)
            low = middle + 1;
        else
            end = middle;
    }
    for (int begin = low; begin < high;) {
        const int middle = (begin + high + 1) / 2;
        if (signs_at_ends(s, split, chain + middle, signs) && signs[0] <= 0 && signs[1] <= 0)
            high = middle - 1;
        else
            begin = middle;
    }
}

// Find the chain of a large group on the cell on top, a region.
template <class Kind>
void find_chain(Search<Kind>& s, const Layer& layer, Frame<1>& frame, int group) {
    const int l = s.top().layer, first = layer.starts[group];
    const GroupSplit<Kind> split{layer, frame, Kind::known(s.path, l, group), l, group, first,
                                 s.path.scale};
    int* form = s.contest.form;
    int n = frame.n_candidates[group];
    for (int m = 0; m < n; m++) form[m] = frame.candidates[first + m];
    const auto compare = [&](int one, int other) { return compare_on_top(s, split, one, other); };
    ChainStatus status;
    n = keep_chain({frame, nullptr, s.path.scale}, form, n, compare, status);
    if (status != kChainProven) {
        compose_doubled(s.path, s.doubled, l);
        n = keep_chain({frame, s.doubled.scores + l, s.path.scale}, form, n, compare, status);
    }
    int low = 0, high = n - 1;
    frame.is_chain[group] = status == kChainProven;
    if (frame.is_chain[group])
        narrow_chain(s, split, form, low, high);
    else
        std::sort(form, form + n);  // as `split_by_group` needs them
    for (int m = low; m <= high; m++) frame.candidates[first + m - low] = form[m];
    frame.n_candidates[group] = high - low + 1;
    frame.fixed[group] = frame.candidates[first] - first;
}

// Find the chains of the large groups that are open on the cell on top.
template <class Kind>
void find_chains(Search<Kind>& s, const Layer& layer, Frame<1>& frame) {
    int n_pending = 0;
    for (int p = 0; p < frame.n_pending; p++) {
        const int group = frame.pending[p];
        frame.is_chain[group] = false;
        if (frame.n_candidates[group] >= kChainFrom) find_chain(s, layer, frame, group);
        frame.pending[n_pending] = group;
        n_pending += frame.n_candidates[group] > 1;
    }
    frame.n_pending = n_pending;
}

// See which groups of its layer, whose scores are composed, are open on the cell on top.
template <class Kind>
void analyse(Search<Kind>& s) {
    auto& item = s.top();
    const Layer& layer = s.path.network->layers[item.layer];
    Frame<Kind::dim>& frame = s.path.frames[item.layer];
    const bool is_typical_known = item.position == kPartEntered;
    const auto cell = s.cells.at(item.place);
    frame.is_written = false;
    if (layer.is_relu)
        analyse_units(layer, frame, s.path.scale, cell, s.counts);
    else
        analyse_groups(layer, frame, s.path.scale, cell, s.contest, s.counts);
    if constexpr (Kind::dim == 1)
        if (!layer.is_relu) find_chains(s, layer, frame);
    if (!is_typical_known && item.layer + 1 < s.path.network->n_layers &&
        s.path.frames[item.layer + 1].is_anchored)
        note_typical(layer, frame, s.path.scale, cell);
    item.position = 0;
    item.window = -1;
}

// Compose the scores of the top cell's layer, and find the groups that are open on the cell.
template <class Kind>
void enter(Search<Kind>& s) {
    const int l = s.top().layer;
    compose_scores(s.path, l);
    Kind::note_region(s.path, l, s.has_far);
    if (s.top().position == kPartEntered) renew_lines(s.cells, s.top().place, s.path, l);
    analyse(s);
}

// The winner of a unit whose wall has already split the cell, or -1 if it has not.
template <class Kind>
int settled_winner(Search<Kind>& s, const Layer& layer, const Frame<Kind::dim>& frame,
                   const Form<Kind::dim>& g, const Wall& wall, const typename Kind::Known& known) {
    const auto& item = s.top();
    const int unit = frame.pending[item.position], twin = wall_of(layer, unit);
    const int* winners = s.winners_of(s.n_items - 1);
    int p = item.position - 1;
    while (p >= 0 && frame.pending[p] != twin) p--;
    if (p < 0) return -1;
    if (layer.first[unit] >= 0) return winners[p];
    if (winners[p] == 1) return 0;
    // This is the opposite of a form that is nowhere positive: it is positive unless both vanish
    // everywhere.
    for (int i = 0; i < item.place.n; i++)
        if (s.cells.sign_at(item.place, i, g, wall, known, s.counts) == 1) return 1;
    return -1;
}

// Skip the pending units of the window, from the next one on, that have one sign on the top cell.
// Return the others as bits.
template <class Kind>
std::uint64_t find_open_units(Search<Kind>& s, Frame<Kind::dim>& frame) {
    auto& item = s.top();
    const int index = item.position / kWindow, from = item.position % kWindow;
    if (frame.window.index != index) load_window(frame, index, s.path.scale);
    if (item.window != index) s.cells.mark(item.place, frame.window, from);
    item.window = index;
    const Marks marks = s.cells.marks_of(item.place);
    const std::uint64_t open =
        ~(marks.positive | marks.negative) & low_bits(frame.window.n) & ~low_bits(from);
    const int found = open != 0 ? __builtin_ctzll(open) : frame.window.n;
    int* winners = s.winners_of(s.n_items - 1) + index * kWindow;
    for (int i = from; i < found; i++) winners[i] = static_cast<int>(marks.positive >> i & 1);
    s.counts.n_filtered += std::int64_t(item.place.n) * (found - from);
    item.position += found - from;
    return open;
}

// Whether no units remain after the window.
template <class Kind>
bool is_last_window(Search<Kind>& s, const Frame<Kind::dim>& frame) {
    const auto& item = s.top();
    return item.layer + 1 == s.path.network->n_layers &&
           (item.position / kWindow + 1) * kWindow >= frame.n_pending;
}

// Count the cells of the last layer in the top cell, if this is possible without constructing them.
template <class Kind>
bool count_at_once(Search<Kind>& s, const Frame<Kind::dim>& frame, std::uint64_t open) {
    auto& item = s.top();
    if (!s.counts_at_once || item.is_cut || !is_last_window(s, frame)) return false;
    const std::int64_t count = s.cells.count_parts(item.place, frame.window, open, s.path.scale);
    item.is_cut = count < 0;
    if (count < 0) return false;
    s.counts.n_filtered += count;
    s.n_cells += count;
    s.n_items--;
    return true;
}

// Write the winners of a layer that are fixed on the whole region.
template <int D>
void write_fixed(const Layer& layer, const Frame<D>& frame, int* signature) {
    for (int g = 0; !layer.is_relu && g < layer.n_groups; g++) signature[g] = frame.fixed[g];
    for (int first = 0; layer.is_relu && first < layer.n_groups; first += kWindow) {
        const std::uint64_t on = frame.on[first / kWindow];
        const int n = least(kWindow, layer.n_groups - first);
        for (int g = 0; g < n; g++) signature[first + g] = static_cast<int>(on >> g & 1);
    }
}

// Write the winners of the top cell's layer, all of which are known.
template <class Kind>
void write_winners(Search<Kind>& s) {
    const auto& item = s.top();
    const Layer& layer = s.path.network->layers[item.layer];
    Frame<Kind::dim>& frame = s.path.frames[item.layer];
    int* signature = s.path.signature + layer.first_group;
    const int* winners = s.winners_of(s.n_items - 1);
    if (!frame.is_written) write_fixed(layer, frame, signature);
    frame.is_written = true;
    for (int p = 0; p < frame.n_pending; p++) signature[frame.pending[p]] = winners[p];
}

// Store the winners of the last layer's cells in the top cell, if only winners are requested and
// the cells need not be constructed. Return the number of cells, 0 if this is not possible, or -1
// if the buffer is full.
template <class Kind>
int list_at_once(Search<Kind>& s, Cells& cells, const Frame<Kind::dim>& frame, std::uint64_t open) {
    auto& item = s.top();
    if constexpr (Kind::lists_parts) {
        // If there are many units, the first one cuts the cell.
        if (!s.stores || cells.points || item.is_cut || !is_last_window(s, frame) ||
            bit_count(open) > kMostListed)
            return 0;
        std::uint64_t parts[kMostParts];
        const int n = s.cells.list_parts(item.place, frame.window, open, s.path.scale, parts);
        item.is_cut = n < 0;
        if (n < 0) return 0;
        if (cells.n_cells + n > cells.room_cells) return -1;
        const std::uint64_t positive = s.cells.marks_of(item.place).positive;
        int* winners = s.winners_of(s.n_items - 1);
        for (; item.position < frame.n_pending; item.position++)
            winners[item.position] = static_cast<int>(positive >> item.position % kWindow & 1);
        write_winners(s);
        const int* units = frame.pending + (frame.n_pending - 1) / kWindow * kWindow;
        int* signature = s.path.signature + s.path.network->layers[item.layer].first_group;
        for (int i = 0; i < n; i++) {
            std::uint64_t signs = parts[i];
            for (std::uint64_t rest = open; rest != 0; rest &= rest - 1, signs >>= 1)
                signature[units[lowest_bit(rest)]] = static_cast<int>(signs & 1);
            store_signature(s.path, cells);
        }
        s.n_cells += n;
        s.n_items--;
        return n;
    }
    return 0;
}

// The signs of a unit of the window at the vertices of the top cell.
template <class Kind>
Signs signs_of_unit(Search<Kind>& s, const Form<Kind::dim>& g, int bit, const Wall& wall,
                    const typename Kind::Known& known) {
    const auto& place = s.top().place;
    Signs found{0, 0};
    for (int i = 0; i < place.n; i++) {
        const Marks& marks = s.cells.marks_at_vertex(place, i);
        int sign = static_cast<int>(marks.positive >> bit & 1) -
                   static_cast<int>(marks.negative >> bit & 1);
        s.counts.n_filtered += sign != 0;
        if (sign == 0) sign = s.cells.sign_at(place, i, g, wall, known, s.counts);
        if (sign == kUndecided) return {-1, i};
        s.cells.signs[i] = static_cast<std::int8_t>(sign);
        found.n_positive += sign > 0;
        found.n_negative += sign < 0;
    }
    return found;
}

// Split the top cell by pending ReLU units until no pending units are left for the new top cell.
template <class Kind>
int split_by_units(Search<Kind>& s, Cells& cells) {
    const int l = s.top().layer;
    const Layer& layer = s.path.network->layers[l];
    Frame<Kind::dim>& frame = s.path.frames[l];
    const auto known = Kind::known(s.path, l);
    while (true) {
        auto& item = s.top();
        if (item.position == frame.n_pending) return kOngoing;
        if (s.must_stop()) return kBudget;
        const std::uint64_t open = find_open_units(s, frame);
        if (open == 0) continue;
        if (count_at_once(s, frame, open)) return kOngoing;
        const int n_listed = list_at_once(s, cells, frame, open);
        if (n_listed != 0) return n_listed > 0 ? kOngoing : kCellsFull;
        if (!s.cells.has_room(item.place) || s.n_items + 1 > s.room_items) return kStackFull;
        const int unit = frame.pending[item.position], bit = item.position % kWindow;
        int* winners = s.winners_of(s.n_items - 1);
        const auto g = form_of(frame.window, bit);
        const Wall wall{l, unit, 1, 0};
        if (layer.first[unit] != unit && !(Kind::notes_ties && s.stores)) {
            const int winner = settled_winner(s, layer, frame, g, wall, known);
            if (winner >= 0) {
                winners[item.position++] = winner;
                continue;
            }
        }
        const Signs found = signs_of_unit(s, g, bit, wall, known);
        if (found.n_positive < 0) return kUnclear;
        // A form that is zero everywhere coincides with the first form, which is zero.
        const int winner = found.n_positive > 0 ? 1 : 0;
        if (found.n_positive == 0 || found.n_negative == 0) {
            const Wall side{l, unit, winner, 1 - winner};
            if (s.stores && !s.cells.note_ties(item.place, found, layer.first_group + unit, side))
                return kStackFull;
            winners[item.position++] = winner;
            continue;
        }
        auto& lower = s.items[s.n_items];
        if (!s.cells.split(item.place, lower.place, g, wall, frame.window, bit, frame.is_pure))
            return kStackFull;
        winners[item.position++] = 1;
        lower.layer = l, lower.position = item.position, lower.window = item.window;
        lower.is_cut = item.is_cut;
        int* others = s.winners_of(s.n_items);
        for (int p = 0; p + 1 < item.position; p++) others[p] = winners[p];
        others[item.position - 1] = 0;
        s.n_items++;
    }
}

enum PartStatus : int {
    kPartFound = 1,
    kPartEmpty = 0,
    kPartUnclear = -1,
    kPartFull = -2,
    kPartStopped = -3,  // time is up; the stack is as it was
};

// Cut a part down to the set where one form wins.
//
// A rival with undecided signs is deferred: it may be smaller everywhere on the set that the other
// rivals leave, and then it does not affect the part.
template <class Kind>
int winning_part(Search<Kind>& s, const GroupSplit<Kind>& split, typename Kind::Part& part, int w,
                 int count) {
    constexpr int most_put_off = 8;
    int put_off[most_put_off], n_put_off = 0;
    const int winner = s.contest.form[w];
    const auto signs_beside = [&](int rival, Wall& wall, Form<Kind::dim>& g) {
        g = difference(split.frame, winner, rival, split.scale);
        wall = {split.l, split.group, winner - split.first, rival - split.first};
        return s.cells.signs_of(part, g, wall, split.known, s.counts);
    };
    Wall wall;
    Form<Kind::dim> g;
    std::uint64_t is_exceeded = 0;
    for (int r = 0; r < count; r++) {
        if (s.must_stop()) return kPartStopped;
        if (r % kLanes == 0)
            is_exceeded = s.cells.exceeded_on(part, split.frame.scores, s.contest, w, r, count);
        if (r == w || (is_exceeded >> r % kLanes & 1)) continue;
        const int rival = s.contest.form[r];
        const Signs found = signs_beside(rival, wall, g);
        if (found.n_positive < 0) {
            if (n_put_off == most_put_off) return kPartUnclear;
            put_off[n_put_off++] = rival;
            continue;
        }
        if (s.stores && found.n_negative == 0 &&
            !s.cells.note_ties(part, found, split.layer.first_group + split.group, wall))
            return kPartFull;
        if (found.n_positive == 0 && found.n_negative == 0) {
            // Both forms are the same function: the signature records the first, and the mean is
            // passed on.
            if (!contribute_alike(split.layer, split.frame, winner, rival)) return kPartUnclear;
            if (winner > rival) return kPartEmpty;
        } else if (found.n_positive == 0) {
            return kPartEmpty;
        } else if (found.n_negative > 0) {
            if (!s.cells.clip(part, g, wall, split.frame.is_pure)) return kPartFull;
        }
    }
    for (int i = 0; i < n_put_off; i++)
        if (signs_beside(put_off[i], wall, g).n_positive != part.n) return kPartUnclear;
    return kPartFound;
}

// Parts of the top cell, found one by one. They are written above it and recorded in the items
// above its own.
template <class Kind>
struct Parts {
    typename Kind::Place end;  // start of the next part
    int count;
};

template <class Kind>
bool has_room_for_part(const Search<Kind>& s, const Parts<Kind>& parts, int most_edges) {
    const int top = s.n_items - 1;
    return s.cells.has_room(s.items[top].place, parts.end, most_edges) &&
           top + parts.count + 3 <= s.room_items;
}

// Record a part and return its place.
template <class Kind>
const typename Kind::Place& note_part(Search<Kind>& s, Parts<Kind>& parts,
                                      const typename Kind::Part& part, int winner) {
    const int top = s.n_items - 1;
    auto& found = s.items[top + ++parts.count];
    found = {s.cells.finish(part, parts.end), s.items[top].layer, winner, -1};
    parts.end = s.cells.after(found.place);
    return found.place;
}

// Split the top cell by a large group in which some forms compete, reaching each part from others.
template <class Kind>
int walk_group(Search<Kind>& s, const GroupSplit<Kind>& split, int count) {
    const auto item = s.top();
    const auto cell = s.cells.at(item.place);
    s.cells.gather(split, s.contest.form, count, cell);
    Parts<Kind> parts{s.cells.after(item.place), 0};
    int n_queued = s.cells.begin_walk(cell, split.scale);
    for (int q = 0; q < n_queued; q++) {
        if (!has_room_for_part(s, parts, count)) return kStackFull;
        const int m = s.cells.walked_to(q);
        auto part = s.cells.begin(item.place, parts.end, count);
        if (s.must_stop()) return kBudget;
        const int status = s.cells.walked_part(split, part, m, s.counts);
        if (status == kPartUnclear) return kUnclear;
        if (status == kPartFull) return kStackFull;
        if (status != kPartEmpty) {
            const auto& place = note_part(s, parts, part, s.cells.walked_form(m) - split.first);
            n_queued = s.cells.go_on(m, place, n_queued, split.scale);
        }
        if (q + 1 == n_queued && parts.count == 0) n_queued = s.cells.queue_all(n_queued);
    }
    settle_parts(s, item, parts.end, parts.count);
    return kOngoing;
}

// Split the cell on top, an interval, by a large group: each winner is bounded by its neighbours on the
// chain.
template <class Kind>
int split_by_chain(Search<Kind>& s, const GroupSplit<Kind>& split) {
    const int top = s.n_items - 1;
    const auto item = s.items[top];
    const int* chain = split.frame.candidates + split.first;
    int low = 0, high = split.frame.n_candidates[split.group] - 1;
    if (!split.frame.is_chain[split.group]) return kUnclear;
    narrow_chain(s, split, chain, low, high);
    if (low == high) {
        s.winners_of(top)[item.position] = chain[low] - split.first;
        s.top().position++;
        return kOngoing;
    }
    // Where the first and the last wall lie inside, all of them do.
    int first[2], last[2];
    if (!signs_at_ends(s, split, chain + low + 1, first) || first[0] * first[1] != -1 ||
        !signs_at_ends(s, split, chain + high, last) || last[0] * last[1] != -1)
        return kUnclear;
    const int left = first[0] < 0 ? 0 : 1;
    // The last winner first: its cells come last.
    int *order = s.contest.listed, n = 0;
    for (int m = low; m <= high; m++) order[n++] = m;
    std::sort(order, order + n, [&](int i, int j) { return chain[i] > chain[j]; });
    Parts<Kind> parts{s.cells.after(item.place), 0};
    for (int p = 0; p < n; p++) {
        if (!has_room_for_part(s, parts, 2)) return kStackFull;
        const int m = order[p];
        auto part = s.cells.begin(item.place, parts.end, 2);
        int at_left = left;
        const auto clip = [&](int rival, bool keeps_right) {
            const Step<Kind> step(split, chain[m], rival);
            s.cells.signs[at_left] = keeps_right ? -1 : 1;
            s.cells.signs[1 - at_left] = keeps_right ? 1 : -1;
            // The end that stays comes first.
            at_left = keeps_right ? 1 : 0;
            return s.cells.clip(part, step.form, step.wall, split.frame.is_pure);
        };
        if (m > low && !clip(chain[m - 1], true)) return kStackFull;
        if (m < high && !clip(chain[m + 1], false)) return kStackFull;
        note_part(s, parts, part, chain[m] - split.first);
    }
    settle_parts(s, item, parts.end, parts.count);
    return kOngoing;
}

// Split the cell on top by the winner of its next group.
template <class Kind>
int split_by_group(Search<Kind>& s) {
    const int top = s.n_items - 1;
    const auto item = s.items[top];
    const Layer& layer = s.path.network->layers[item.layer];
    const Frame<Kind::dim>& frame = s.path.frames[item.layer];
    const int group = frame.pending[item.position], first = layer.starts[group];
    const GroupSplit<Kind> split{layer,       frame, Kind::known(s.path, item.layer, group),
                                 item.layer,  group, first,
                                 s.path.scale};
    int count = frame.n_candidates[group];
    if constexpr (Kind::dim == 1)
        if (count >= kChainFrom || frame.is_chain[group]) return split_by_chain(s, split);
    for (int m = 0; m < count; m++) s.contest.form[m] = frame.candidates[first + m];
    const auto cell = s.cells.at(item.place);
    // For the whole region, the forms of a large group have already been culled.
    if (item.position > 0 || !s.cells.walks(count))
        count = cull(frame.scores, split.scale, cell, reach_of(cell), split.known, count, s.contest,
                     s.counts);
    if (count == 1) {
        s.winners_of(top)[item.position] = s.contest.form[0] - first;
        s.top().position++;
        return kOngoing;
    }
    if constexpr (Kind::walks_groups)
        if (s.cells.walks(count)) return walk_group(s, split, count);
    Parts<Kind> parts{s.cells.after(item.place), 0};
    // The last winner comes first on the stack, because its cells are last in the order.
    for (int m = count - 1; m >= 0; m--) {
        if (!has_room_for_part(s, parts, count)) return kStackFull;
        auto part = s.cells.begin(item.place, parts.end, count);
        const int status = winning_part(s, split, part, m, count);
        if (status == kPartStopped) return kBudget;
        if (status == kPartUnclear) return kUnclear;
        if (status == kPartFull) return kStackFull;
        if (status != kPartEmpty) note_part(s, parts, part, s.contest.form[m] - first);
    }
    settle_parts(s, item, parts.end, parts.count);
    return kOngoing;
}

// Pass the top cell on to the next layer, or store it.
template <class Kind>
int pass_on(Search<Kind>& s, Cells& cells) {
    const Network& network = *s.path.network;
    auto& item = s.top();
    const int l = item.layer;
    const bool is_last = l >= network.n_layers - 1;
    if (is_last && s.stores && !has_room(s.cells, item.place, network, cells)) return kCellsFull;
    if (l < network.n_layers && (s.stores || !is_last)) write_winners(s);
    if (!is_last) {
        compose_stream(s.path, l);
        item.layer = l + 1;
        item.position = kNotEntered;
        return kOngoing;
    }
    if (s.stores &&
        !store_cell(s.cells, item.place, s.path, s.pure, s.doubled, s.is_precise, cells))
        return kImprecise;
    s.is_precise = false;
    s.n_cells++;
    s.n_items--;
    return kOngoing;
}

// Recompute the top cell in twice the precision. Return whether anything became more precise.
template <class Kind>
bool improve(Search<Kind>& s) {
    auto& item = s.top();
    item.window = -1;
    const int l = least(item.layer, s.path.network->n_layers - 1);
    const bool is_clearer = improve_path(s.path, s.doubled, l);
    for (int i = 0; i <= l; i++) s.path.frames[i].window.index = -1;
    return improve_cell(s.cells, item.place, s.path) || is_clearer;
}

// Make the next step with the top cell. Return the reason if this is not possible, or kOngoing.
template <class Kind>
int step(Search<Kind>& s, Cells& cells) {
    const Network& network = *s.path.network;
    const auto& item = s.top();
    int status = kOngoing;
    if (item.layer < network.n_layers && item.position < 0)
        enter(s);
    else if (item.layer == network.n_layers || item.position == s.path.frames[item.layer].n_pending)
        status = pass_on(s, cells);
    else if (network.layers[item.layer].is_relu)
        status = split_by_units(s, cells);
    else
        status = split_by_group(s);
    return status == kUnclear && improve(s) ? static_cast<int>(kOngoing) : status;
}

}  // namespace detail

// Continue splitting until the caller has to act, or another thread requests work. Return the
// reason. When time is up, a long step is abandoned, and the stack is restored to its state before
// the step.
template <class Kind>
int run(Search<Kind>& s, Cells& cells, std::int64_t limit, std::int64_t budget,
        const std::int32_t* is_wanted, const std::int32_t* is_stopped) {
    s.is_stopped = is_stopped;
    s.counts_at_once = !s.stores && limit < 0;
    for (; budget > 0; budget--) {
        if (s.n_items == 0) return kDone;
        if (s.n_cells == limit) return kCellLimit;
        const int status = detail::step(s, cells);
        if (status != kOngoing) return status;
        if (__atomic_load_n(is_wanted, __ATOMIC_RELAXED)) break;
    }
    return s.n_items == 0 ? kDone : kBudget;
}

}  // namespace hardmax
