// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"slices"
	"sort"
)

// maxCells limits the size of the table in commonTable. It is enough for a chain of 1,000 rules
// that all change.
const maxCells = 1 << 20

// diffRules calls yield with the operations that turn the old rules into the new ones. As many
// rules stay as possible, and the other operations are as few as possible. The index of an
// operation is that after the operations before it.
func diffRules(old, new []Rule, yield func(kind OpKind, index int, r Rule)) {
	index := 0
	for len(old) > 0 && len(new) > 0 && old[0].Equal(new[0]) {
		old, new = old[1:], new[1:]
		index++
	}
	for len(old) > 0 && len(new) > 0 && old[len(old)-1].Equal(new[len(new)-1]) {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	keep := commonRules(old, new)
	for len(old) > 0 || len(new) > 0 {
		// New rules replace old ones up to the next pair that stays.
		removed, added := len(old), len(new)
		if len(keep) > 0 {
			removed, added = keep[0][0], keep[0][1]
		}
		for range min(removed, added) {
			yield(ReplaceRule, index, new[0])
			old, new = old[1:], new[1:]
			index++
		}
		for range removed - min(removed, added) {
			yield(DeleteRule, index, old[0])
			old = old[1:]
		}
		for range added - min(removed, added) {
			yield(InsertRule, index, new[0])
			new = new[1:]
			index++
		}
		if len(keep) > 0 {
			old, new = old[1:], new[1:]
			index++
			keep = keep[1:]
		}
	}
}

// commonRules returns the rules that stay, as pairs of an old rule and an equal new rule. Each pair
// has the numbers of old and new rules since the pair before. As many rules stay as possible. If
// the lists are too long for the table of commonTable, they are compared in pieces, between rules
// that occur once in each list. Then some more rules may be replaced.
func commonRules(old, new []Rule) [][2]int {
	if len(old) == 0 || len(new) == 0 {
		return nil
	}
	var keep [][2]int
	lastI, lastJ := 0, 0
	a, b := numberRules(old, new)
	common(a, b, 0, 0, func(i, j int) {
		keep = append(keep, [2]int{i - lastI, j - lastJ})
		lastI, lastJ = i+1, j+1
	})
	return keep
}

// common calls yield for the pairs of the longest common subsequence of a and b, which begin at i
// and j.
func common(a, b []int32, i, j int, yield func(i, j int)) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		yield(i, j)
		a, b, i, j = a[1:], b[1:], i+1, j+1
	}
	tail := 0
	for tail < len(a) && tail < len(b) && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	endI, endJ := i+len(a)-tail, j+len(b)-tail
	a, b = a[:len(a)-tail], b[:len(b)-tail]
	if len(a)*len(b) <= maxCells {
		commonTable(a, b, i, j, yield)
	} else if anchors := commonAnchors(a, b); len(anchors) > 0 {
		fromI, fromJ := 0, 0
		for _, at := range anchors {
			common(a[fromI:at[0]], b[fromJ:at[1]], i+fromI, j+fromJ, yield)
			yield(i+at[0], j+at[1])
			fromI, fromJ = at[0]+1, at[1]+1
		}
		common(a[fromI:], b[fromJ:], i+fromI, j+fromJ, yield)
	}
	for n := range tail {
		yield(endI+n, endJ+n)
	}
}

// commonTable does what common does, with a table of the lengths of common subsequences.
func commonTable(a, b []int32, i, j int, yield func(i, j int)) {
	width := len(b) + 1
	length := make([]int32, (len(a)+1)*width)
	for x := len(a) - 1; x >= 0; x-- {
		for y := len(b) - 1; y >= 0; y-- {
			if a[x] == b[y] {
				length[x*width+y] = length[(x+1)*width+y+1] + 1
			} else {
				length[x*width+y] = max(length[(x+1)*width+y], length[x*width+y+1])
			}
		}
	}
	for x, y := 0, 0; x < len(a) && y < len(b); {
		switch {
		case a[x] == b[y]:
			yield(i+x, j+y)
			x, y = x+1, y+1
		case length[(x+1)*width+y] >= length[x*width+y+1]:
			x++
		default:
			y++
		}
	}
}

// commonAnchors returns the longest list of pairs of equal numbers that occur once in a and once in
// b. The pairs are in order on both sides.
func commonAnchors(a, b []int32) [][2]int {
	type occurrences struct{ inA, inB, at int }
	found := map[int32]occurrences{}
	for _, n := range a {
		p := found[n]
		p.inA++
		found[n] = p
	}
	for y, n := range b {
		p := found[n]
		p.inB, p.at = p.inB+1, y
		found[n] = p
	}
	var pairs [][2]int
	var before []int // for each pair, the pair before it on the longest path, or -1
	var ends []int   // the last pair of the best path of each length
	for x, n := range a {
		p := found[n]
		if p.inA != 1 || p.inB != 1 {
			continue
		}
		at := sort.Search(len(ends), func(k int) bool { return pairs[ends[k]][1] > p.at })
		previous := -1
		if at > 0 {
			previous = ends[at-1]
		}
		if at == len(ends) {
			ends = append(ends, 0)
		}
		ends[at] = len(pairs)
		pairs, before = append(pairs, [2]int{x, p.at}), append(before, previous)
	}
	var out [][2]int
	if len(ends) > 0 {
		for at := ends[len(ends)-1]; at >= 0; at = before[at] {
			out = append(out, pairs[at])
		}
	}
	slices.Reverse(out)
	return out
}

// numberRules gives equal rules equal numbers.
func numberRules(old, new []Rule) (a, b []int32) {
	byText := map[string][]int32{}
	var rules []*Rule
	number := func(r *Rule) int32 {
		text := r.String()
		for _, n := range byText[text] {
			if rules[n].Equal(*r) {
				return n
			}
		}
		n := int32(len(rules))
		rules = append(rules, r)
		byText[text] = append(byText[text], n)
		return n
	}
	for i := range old {
		a = append(a, number(&old[i]))
	}
	for i := range new {
		b = append(b, number(&new[i]))
	}
	return a, b
}
