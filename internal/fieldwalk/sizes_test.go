// SPDX-License-Identifier: Apache-2.0

package fieldwalk_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/fieldwalk"
)

type node[T any] struct {
	next    *node[T]
	any     any
	entries map[string][]T
	cache   []int
	foreign netip.Prefix
}

// Sizes looks through pointers, interfaces and type parameters, and counts what two pointers lead to
// once.
func TestSizes(t *testing.T) {
	last := &node[int]{entries: map[string][]int{"a": {1, 2}, "b": nil}, cache: []int{1}}
	first := &node[int]{next: last, any: last, foreign: netip.MustParsePrefix("10.0.0.0/8")}
	last.next = first
	const prefix = "github.com/wayleave/wayleave/internal/fieldwalk"
	require.Equal(t, map[string]int{"node.entries": 4}, fieldwalk.Sizes(first, prefix, "node.cache"))
	require.Equal(t, map[string]int{"node.entries": 4, "node.cache": 1}, fieldwalk.Sizes(first, prefix))
	require.Empty(t, fieldwalk.Sizes(first, "net/"))
}
