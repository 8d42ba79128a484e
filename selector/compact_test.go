// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
)

func TestCompact(t *testing.T) {
	labels := map[string]string{"b": "", "a": "x", "": "nameless", "c": "x"}
	c := selector.NewCompact(labels)
	labels["a"] = "changed" // NewCompact has copied the map
	delete(labels, "b")

	require.Equal(t, selector.Map{"b": "", "a": "x", "": "nameless", "c": "x"}, c.Map())
	require.Equal(t, 4, c.Len())
	for name, want := range c.Map() {
		got, ok := c.Get(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	_, ok := c.Get("d")
	require.False(t, ok)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Get("c") }))

	var names []string
	for name := range c.All() {
		if names = append(names, name); len(names) == 3 {
			break
		}
	}
	require.Equal(t, []string{"", "a", "b"}, names)
}

func TestCompactEmpty(t *testing.T) {
	for _, c := range []*selector.Compact{nil, {}, selector.NewCompact(nil)} {
		_, ok := c.Get("a")
		require.False(t, ok)
		require.Zero(t, c.Len())
		require.Empty(t, c.Map())
	}
}

// Compact is correct for objects with many labels, too, though slower.
func TestCompactLarge(t *testing.T) {
	labels := map[string]string{}
	for i := range 500 {
		labels[fmt.Sprint("name-", i)] = fmt.Sprint("value-", i%7)
	}
	requireMatch(t, true, parse(t, `name-499 == "value-2" && has(name-0) && !has(name-500)`), labels)
}
