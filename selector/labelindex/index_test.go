// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
	"github.com/wayleave/wayleave/selector/labelindex"
)

type (
	labels = map[string]string
	index  = labelindex.Index[string, string]
)

// recorder records the calls of the callbacks: "+selector item" and "-selector item".
type recorder struct{ events []string }

func (r *recorder) take() []string {
	events := r.events
	r.events = nil
	return events
}

func newIndex(t testing.TB) (*index, *recorder) {
	rec := &recorder{}
	x, err := labelindex.New(labelindex.Config[string, string]{
		CompareItems:     strings.Compare,
		CompareSelectors: strings.Compare,
		Started:          func(s, i string) { rec.events = append(rec.events, "+"+s+" "+i) },
		Stopped:          func(s, i string) { rec.events = append(rec.events, "-"+s+" "+i) },
	})
	require.NoError(t, err)
	return x, rec
}

func parse(t testing.TB, text string) *selector.Selector {
	sel, err := selector.Parse(text)
	require.NoError(t, err)
	return sel
}

func TestNewRefusesIncompleteConfig(t *testing.T) {
	x, err := labelindex.New(labelindex.Config[int, int]{})
	require.Nil(t, x)
	require.ErrorContains(t, err, "labelindex: Config.CompareItems: required")
	require.ErrorContains(t, err, "labelindex: Config.CompareSelectors: required")
}

// The callbacks are optional.
func TestCallbacksAreOptional(t *testing.T) {
	x, err := labelindex.New(labelindex.Config[int, int]{
		CompareItems: cmp.Compare[int], CompareSelectors: cmp.Compare[int],
	})
	require.NoError(t, err)
	x.UpdateItem(1, nil, nil)
	x.UpdateSelector(2, selector.All())
	require.Equal(t, []int{1}, slices.Collect(x.Items(2)))
	x.DeleteItem(1)
	require.Empty(t, slices.Collect(x.Items(2)))
}

// S82: an own label takes precedence over inherited ones. Of several parents, the first in the list
// that has the label takes precedence.
func TestInheritance(t *testing.T) {
	x, rec := newIndex(t)
	x.UpdateSelector("own", parse(t, `a == "own"`))
	x.UpdateSelector("p1", parse(t, `a == "p1"`))
	x.UpdateSelector("p2", parse(t, `a == "p2"`))
	x.UpdateParent("p2", labels{"a": "p2"})
	require.Empty(t, rec.take())

	x.UpdateItem("i", nil, []string{"p1", "p2"}) // S84: p1 does not exist yet
	require.Equal(t, []string{"+p2 i"}, rec.take())
	x.UpdateParent("p1", labels{"b": ""})
	require.Empty(t, rec.take())
	x.UpdateParent("p1", labels{"a": "p1"})
	require.Equal(t, []string{"+p1 i", "-p2 i"}, rec.take())
	x.UpdateItem("i", labels{"a": "own"}, []string{"p1", "p2"})
	require.Equal(t, []string{"+own i", "-p1 i"}, rec.take())
	x.UpdateItem("i", nil, []string{"p2", "p1"})
	require.Equal(t, []string{"-own i", "+p2 i"}, rec.take())
	x.DeleteParent("p2")
	require.Equal(t, []string{"+p1 i", "-p2 i"}, rec.take())
	x.UpdateItem("i", nil, nil) // S83: the profile is removed from the list
	require.Equal(t, []string{"-p1 i"}, rec.take())
}

// An inherited label with an empty value is present.
func TestEmptyValueIsPresent(t *testing.T) {
	x, _ := newIndex(t)
	x.UpdateSelector("s", parse(t, `a == "late"`))
	x.UpdateParent("p1", labels{"a": ""})
	x.UpdateParent("p2", labels{"a": "late"})
	x.UpdateItem("i", nil, []string{"p1", "p2"})
	require.Empty(t, slices.Collect(x.Items("s")))
}

func TestUnchangedInputReportsNothing(t *testing.T) {
	x, rec := newIndex(t)
	step := func() {
		x.UpdateParent("p", labels{"b": "2"})
		x.UpdateItem("i", labels{"a": "1"}, []string{"p", "p", "absent"})
		x.UpdateSelector("s", parse(t, `has(a) && has(b)`))
		x.DeleteItem("unknown")
		x.DeleteParent("unknown")
		x.DeleteSelector("unknown")
	}
	step()
	require.Equal(t, []string{"+s i"}, rec.take())
	size := x.Size()
	step()
	x.UpdateSelector("s", parse(t, `(has(a)&&has(b))`)) // another text of the same selector
	require.Empty(t, rec.take())
	require.Equal(t, size, x.Size())
}

// Inputs may change after the call.
func TestInputsAreCopied(t *testing.T) {
	x, rec := newIndex(t)
	own, inherited, parents := labels{"a": "1"}, labels{"b": "1"}, []string{"p"}
	x.UpdateItem("i", own, parents)
	x.UpdateParent("p", inherited)
	own["a"], inherited["b"], parents[0] = "2", "2", "q"
	x.UpdateSelector("s", parse(t, `a == "1" && b == "1"`))
	require.Equal(t, []string{"+s i"}, rec.take())
}

// Replacing a selector reports only the differences.
func TestReplaceSelector(t *testing.T) {
	x, rec := newIndex(t)
	for _, name := range []string{"c", "a", "b"} {
		x.UpdateItem(name, labels{name: ""}, nil)
	}
	x.UpdateSelector("s", parse(t, "has(a) || has(b)"))
	require.Equal(t, []string{"+s a", "+s b"}, rec.take())
	x.UpdateSelector("twin", parse(t, "has(c) || has(b)"))
	require.Equal(t, []string{"+twin b", "+twin c"}, rec.take())
	x.UpdateSelector("s", parse(t, "has(c) || has(b)")) // now equal to another selector
	require.Equal(t, []string{"-s a", "+s c"}, rec.take())
	require.Equal(t, []string{"s", "twin"}, slices.Collect(x.Selectors("b")))
	x.DeleteItem("b")
	require.Equal(t, []string{"-s b", "-twin b"}, rec.take())
	x.DeleteSelector("twin")
	require.Equal(t, []string{"-twin c"}, rec.take())
	x.UpdateSelector("s", nil) // like an invalid selector, it matches nothing
	require.Equal(t, []string{"-s c"}, rec.take())
	x.UpdateSelector("s", selector.Not(selector.Has("no name")))
	require.Empty(t, rec.take())
}

// A parent changes the matches of thousands of items: reports are sorted, one for each item.
func TestManyChangesAreSorted(t *testing.T) {
	x, rec := newIndex(t)
	x.UpdateSelector("b", parse(t, `env == "prod"`))
	x.UpdateSelector("a", parse(t, `env == "prod"`))
	x.UpdateSelector("c", parse(t, `env != "prod"`))
	var want []string
	for i := range 2000 {
		x.UpdateItem(fmt.Sprintf("%04d", (i*7)%2000), nil, []string{"ns"})
	}
	rec.take()
	for _, sel := range []string{"+a", "+b", "-c"} {
		for i := range 2000 {
			want = append(want, fmt.Sprintf("%s %04d", sel, i))
		}
	}
	x.UpdateParent("ns", labels{"env": "prod"})
	require.Equal(t, want, rec.take())
	x.DeleteParent("ns")
	require.Len(t, rec.take(), 6000)
}

// A sequence is a snapshot: later changes do not affect it.
func TestSequencesAreSnapshots(t *testing.T) {
	x, _ := newIndex(t)
	x.UpdateItem("i", nil, nil)
	x.UpdateSelector("s", selector.All())
	items, selectors := x.Items("s"), x.Selectors("i")
	x.DeleteItem("i")
	require.Equal(t, []string{"i"}, slices.Collect(items))
	require.Equal(t, []string{"s"}, slices.Collect(selectors))
	require.Empty(t, slices.Collect(x.Selectors("i")))
	require.Empty(t, slices.Collect(x.Items("unknown")))
}
