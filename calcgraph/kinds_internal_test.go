// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// The graph processes resources of every kind, and their removal.
func TestEveryKindIsProcessed(t *testing.T) {
	source, err := os.ReadFile("graph.go")
	require.NoError(t, err)
	_, set, ok := strings.Cut(string(source), "func (g *Graph) set(")
	require.True(t, ok)
	set, remove, ok := strings.Cut(set, "func (g *Graph) remove(")
	require.True(t, ok)
	remove, _, _ = strings.Cut(remove, "\nfunc ")
	for _, kind := range policy.Kinds() {
		r, err := policy.Decode([]byte(`{"kind":"` + string(kind) + `"}`))
		require.NoError(t, err)
		typ := reflect.TypeOf(r)
		require.Contains(t, set, "case "+typ.String()+":")
		require.Regexp(t, `\bpolicy\.Kind`+string(kind)+`\b`, remove)
		_, has := typ.Elem().FieldByName("Namespace")
		require.Equal(t, has, namespaced(kind), kind)
	}
}
