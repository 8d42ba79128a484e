// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// The tests in this file count evaluations: comparisons of an item with a selector.

// evaluations returns the number of evaluations during a change.
func evaluations(x *index, change func()) int {
	before := x.Stats().Evaluations
	change()
	return int(x.Stats().Evaluations - before)
}

// Selectors that all need a common label are filed under their other label, also if they are added
// before the items.
func TestItemIsComparedWithFewSelectors(t *testing.T) {
	for _, selectorsFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("selectorsFirst=%t", selectorsFirst), func(t *testing.T) {
			x, rec := newIndex(t)
			selectors := func() {
				for i := range 1000 {
					x.UpdateSelector(strconv.Itoa(i), parse(t, fmt.Sprintf(`alpha == "beta" && has(ipset-%d)`, i)))
				}
			}
			items := func() {
				for i := range 1000 {
					x.UpdateItem(strconv.Itoa(i), labels{"alpha": "beta", "ipset-" + strconv.Itoa(i): ""}, nil)
				}
			}
			if selectorsFirst {
				selectors()
				require.Less(t, evaluations(x, items), 2100)
			} else {
				items()
				require.Less(t, evaluations(x, selectors), 2100)
			}
			require.Len(t, rec.take(), 1000)
		})
	}
}

// A selector is filed under another label when its label has become common.
func TestSelectorIsRefiled(t *testing.T) {
	x, rec := newIndex(t)
	for i := range 50 {
		x.UpdateItem("b"+strconv.Itoa(i), labels{"b": ""}, nil)
	}
	x.UpdateSelector("s", parse(t, `has(a) && has(b)`)) // filed under a, which no item has
	for i := range 50 {
		x.DeleteItem("b" + strconv.Itoa(i))
	}
	spent := evaluations(x, func() {
		for i := range 5000 {
			x.UpdateItem("a"+strconv.Itoa(i), labels{"a": ""}, nil)
		}
	})
	require.Less(t, spent, 100)
	require.EqualValues(t, 1, x.Stats().Refilings)
	require.Empty(t, rec.take())
	x.UpdateParent("p", labels{"b": ""})
	x.UpdateItem("a7", labels{"a": ""}, []string{"p"})
	require.Equal(t, []string{"+s a7"}, rec.take())
}

// A change of labels that no selector mentions causes no evaluation, for an item and for a parent
// of thousands.
func TestUnmentionedLabelsCauseNoEvaluation(t *testing.T) {
	x, rec := newIndex(t)
	x.UpdateSelector("near", parse(t, `has(a) && b != "2"`))
	x.UpdateSelector("loose", parse(t, `!has(c)`))
	x.UpdateSelector("all", selector.All())
	for i := range 3000 {
		x.UpdateItem(strconv.Itoa(i), labels{"a": "1"}, []string{"p"})
	}
	require.Len(t, rec.take(), 9000)
	require.Zero(t, evaluations(x, func() {
		x.UpdateItem("7", labels{"a": "1", "x": "y"}, []string{"p"})
		x.UpdateItem("7", labels{"a": "1", "x": "z"}, []string{"p", "absent"})
		x.UpdateParent("p", labels{"x": "y"})
		x.UpdateParent("p", labels{"z": "y"})
		x.DeleteParent("p")
		x.DeleteItem("8")
	}))
	require.Equal(t, []string{"-all 8", "-loose 8", "-near 8"}, rec.take())
	// A change of a mentioned label causes only the evaluation of the selector that mentions it.
	require.Equal(t, 1, evaluations(x, func() { x.UpdateItem("9", labels{"a": "1", "c": ""}, []string{"p"}) }))
	require.Equal(t, []string{"-loose 9"}, rec.take())
}

// Loose selectors are evaluated for each new item. For a changed item, they are evaluated only if
// they mention a changed label. They add no evaluations of other selectors.
func TestLooseSelectorsAreSeparate(t *testing.T) {
	x, rec := newIndex(t)
	for i := range 500 {
		x.UpdateSelector(fmt.Sprintf("loose-%03d", i), parse(t, fmt.Sprintf(`l%d != "b"`, i)))
	}
	require.Equal(t, 500, x.Stats().LooseQueries)
	require.Equal(t, 500, evaluations(x, func() { x.UpdateItem("i", labels{"l7": "a"}, nil) }))
	require.Len(t, rec.take(), 500)
	require.Equal(t, 1, evaluations(x, func() { x.UpdateItem("i", labels{"l7": "b"}, nil) }))
	require.Equal(t, []string{"-loose-007 i"}, rec.take())
	require.Equal(t, 0, evaluations(x, func() { x.UpdateSelector("tight", parse(t, `has(x)`)) }))
	require.Equal(t, 1, evaluations(x, func() { x.UpdateItem("i", labels{"l7": "b", "x": ""}, nil) }))
	require.Equal(t, []string{"+tight i"}, rec.take())
}

// A change of a label causes the evaluation only of selectors that mention the label. Other
// selectors are not evaluated, also if a thousand of them are loose, or filed under a label of the
// item.
func TestChangeReachesSelectorsThatMentionIt(t *testing.T) {
	for _, form := range []string{
		`a == "b" && !has(x%d)`, `a == "b" && has(x%d)`, `has(a) && x%d != "b"`, `x%d != "b"`,
	} {
		t.Run(form, func(t *testing.T) {
			x, rec := newIndex(t)
			for i := range 1000 {
				x.UpdateSelector(fmt.Sprintf("s%03d", i), parse(t, fmt.Sprintf(form, i)))
			}
			x.UpdateItem("i", labels{"a": "b", "x7": "a"}, nil)
			rec.take()
			require.Equal(t, 1, evaluations(x, func() { x.UpdateItem("i", labels{"a": "b", "x7": "b"}, nil) }))
			require.Equal(t, 1, evaluations(x, func() { x.UpdateItem("i", labels{"a": "b"}, nil) }))
			require.LessOrEqual(t, len(rec.take()), 2)
		})
	}
}

// 1,000 selectors mention the changed label, and each needs another label. Only selectors whose
// other label the item has are evaluated.
func TestChangeOfCommonLabelEvaluatesFewSelectors(t *testing.T) {
	x, rec := newIndex(t)
	for i := range 1000 {
		x.UpdateSelector(fmt.Sprintf("s%03d", i), parse(t, fmt.Sprintf(`a == "b" && has(x%d)`, i)))
	}
	x.UpdateItem("i", labels{"a": "b", "x7": "", "x8": ""}, []string{"p"})
	require.Equal(t, []string{"+s007 i", "+s008 i"}, rec.take())
	require.LessOrEqual(t, evaluations(x, func() { x.UpdateItem("i", labels{"x7": "", "x8": ""}, []string{"p"}) }), 3)
	require.Equal(t, []string{"-s007 i", "-s008 i"}, rec.take())
	require.LessOrEqual(t, evaluations(x, func() { x.UpdateParent("p", labels{"a": "b"}) }), 3)
	require.Equal(t, []string{"+s007 i", "+s008 i"}, rec.take())
}

// A selector is also refiled if no item is added: existing items get labels, of their own or from a
// parent.
func TestSelectorIsRefiledAsLabelsChange(t *testing.T) {
	const n = 1000
	selectors := func(x *index) {
		for i := range n {
			x.UpdateSelector(strconv.Itoa(i), parse(t, fmt.Sprintf(`a == "common" && b == "%d"`, i)))
		}
	}
	t.Run("own", func(t *testing.T) {
		x, _ := newIndex(t)
		for i := range n {
			x.UpdateItem("seed"+strconv.Itoa(i), labels{"b": strconv.Itoa(i)}, nil)
		}
		selectors(x)
		for i := range n {
			x.DeleteItem("seed" + strconv.Itoa(i))
		}
		round := func() {
			for i := range 100 {
				x.UpdateItem(strconv.Itoa(i), nil, nil)
				x.UpdateItem(strconv.Itoa(i), labels{"a": "common", "b": strconv.Itoa(i)}, nil)
			}
		}
		round()
		require.LessOrEqual(t, evaluations(x, round), 500)
	})
	t.Run("parent", func(t *testing.T) {
		x, rec := newIndex(t)
		for i := range 100 {
			x.UpdateItem(strconv.Itoa(i), labels{"b": strconv.Itoa(i)}, []string{"late"})
		}
		selectors(x)
		x.UpdateParent("late", labels{"a": "common"})
		x.DeleteParent("late")
		require.Len(t, rec.take(), 200)
		require.LessOrEqual(t, evaluations(x, func() {
			x.UpdateParent("late", labels{"a": "common"})
			x.DeleteParent("late")
		}), 500)
		require.Len(t, rec.take(), 200)
		require.NoError(t, x.Check())
	})
}

// If two terms alternate in being more common, a selector with many values is not refiled all the
// time. It is refiled at most once for as many evaluations as it has values.
func TestRefilingCostsLessThanComparisons(t *testing.T) {
	x, _ := newIndex(t)
	values := make([]string, 1500)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	x.UpdateSelector("s", selector.And(selector.In("a", values...), selector.Equal("b", "y"), selector.Has("c")))
	spent := evaluations(x, func() {
		for round := range 50 {
			own := []labels{{"a": "7"}, {"b": "y"}}[round%2]
			for i := range 400 {
				x.UpdateItem(strconv.Itoa(i), own, nil)
			}
			for i := range 400 {
				x.DeleteItem(strconv.Itoa(i))
			}
		}
	})
	require.LessOrEqual(t, x.Stats().Refilings, uint64(spent/1500))
}

// After a panic in a callback, later calls do not report the remaining changes.
func TestCallbackPanics(t *testing.T) {
	var started []string
	x, err := labelindex.New(labelindex.Config[string, string]{
		CompareItems: cmp.Compare[string], CompareSelectors: cmp.Compare[string],
		Started: func(sel, item string) {
			if started = append(started, sel+" "+item); len(started) == 1 {
				panic("first")
			}
		},
	})
	require.NoError(t, err)
	x.UpdateSelector("s", parse(t, `has(a)`))
	require.Panics(t, func() { x.UpdateItem("i", labels{"a": ""}, nil) })
	x.UpdateItem("j", labels{"a": ""}, nil)
	x.UpdateSelector("t", parse(t, `has(a)`))
	require.Equal(t, []string{"s i", "s j", "t i", "t j"}, started)
}

// If a callback panics in a Delete method, the object is removed nevertheless.
func TestCallbackPanicsInDelete(t *testing.T) {
	x, err := labelindex.New(labelindex.Config[string, string]{
		CompareItems: cmp.Compare[string], CompareSelectors: cmp.Compare[string],
		Stopped: func(string, string) { panic("no") },
	})
	require.NoError(t, err)
	empty := x.Size()
	x.UpdateSelector("s", parse(t, `has(a)`))
	x.UpdateSelector("all", selector.All())
	x.UpdateItem("i", labels{"a": ""}, nil)
	require.Panics(t, func() { x.DeleteSelector("s") })
	require.Empty(t, slices.Collect(x.Items("s")))
	require.Panics(t, func() { x.DeleteItem("i") })
	require.Empty(t, slices.Collect(x.Items("all")))
	x.DeleteSelector("all")
	require.Equal(t, empty, x.Size())
}

// Equal selectors are evaluated once.
func TestEqualSelectorsShareWork(t *testing.T) {
	x, rec := newIndex(t)
	for i := range 100 {
		x.UpdateItem(strconv.Itoa(i), labels{"a": strconv.Itoa(i % 2)}, nil)
	}
	require.Equal(t, 50, evaluations(x, func() { x.UpdateSelector("first", parse(t, `a == "1"`)) }))
	require.Zero(t, evaluations(x, func() { x.UpdateSelector("second", parse(t, `(a=='1')`)) }))
	require.Len(t, rec.take(), 100)
	require.Equal(t, 1, evaluations(x, func() { x.UpdateItem("new", labels{"a": "1"}, nil) }))
	require.Equal(t, []string{"+first new", "+second new"}, rec.take())
	require.Zero(t, evaluations(x, func() { x.DeleteSelector("first") }))
	require.Len(t, rec.take(), 51)
	require.Len(t, slices.Collect(x.Items("second")), 51)
}

func TestStats(t *testing.T) {
	x, _ := newIndex(t)
	require.Zero(t, x.Stats())
	x.UpdateItem("i", labels{"a": "1", "b": "1"}, []string{"p", "absent"})
	x.UpdateParent("p", labels{"a": "2"})
	x.UpdateSelector("s", parse(t, `has(c)`))
	x.UpdateSelector("t", parse(t, `!has(d)`))
	x.UpdateSelector("u", parse(t, `!has(d)`))
	require.Equal(t, labelindex.Stats{
		Items: 1, Parents: 2, Selectors: 3, Queries: 2, LooseQueries: 1, Names: 4, Pairs: 3, Matches: 1, Evaluations: 1,
	}, x.Stats())
}

// An update without a change, or without a change of mentioned labels, allocates nothing.
func TestNoAllocations(t *testing.T) {
	x, _ := newIndex(t)
	x.UpdateSelector("s", parse(t, `has(a)`))
	x.UpdateItem("other", labels{"a": "1", "b": "1"}, []string{"p"})
	x.UpdateItem("other too", labels{"a": "1", "b": "2"}, []string{"p"})
	parents, versions := []string{"p"}, []labels{{"a": "1", "b": "1"}, {"a": "1", "b": "2"}}
	i := 0
	require.Zero(t, testing.AllocsPerRun(100, func() { x.UpdateItem("i", versions[0], parents) }))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		i++
		x.UpdateItem("i", versions[i%2], parents)
	}))
}
