// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/manifest"
)

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The allocated memory is at most proportional to the length of a document, for any aliases and
// lengths of keys.
func TestMemoryIsProportionalToLength(t *testing.T) {
	const head = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  annotations:\n"
	long := strings.Repeat("x", 1<<18)
	list := func(entry string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+", ", n), ", ") + "]"
	}
	for name, text := range map[string]string{
		"one long text": head + "    a: &a " + long + "\n    b: " + list("*a", 10_000) + "\n",
		"a long key":    head + "    a: &a {? " + long + " : b}\n    b: " + list("*a", 10_000) + "\n",
		"texts in texts": head + "    a: &a " + list("x", 10_000) + "\n    b: &b " + list("*a", 1_000) +
			"\n    c: " + list("*b", 1_000) + "\n",
		"in items": "apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: Namespace, " +
			"metadata: {name: a, annotations: {a: " + long + "}}}\n" + strings.Repeat("- *a\n", 1_000),
		"a long key over others": head + "    ? " + long + "\n    : " + list("[y]", 20_000) + "\n",
		"lists in themselves":    "&l\napiVersion: v1\nkind: List\nitems: [*l, *l, *l, *l, *l, *l, *l, *l, *l]\n",
		"items in themselves": "apiVersion: v1\nkind: List\nitems: &i\n" +
			strings.Repeat("- {apiVersion: v1, kind: List, items: *i}\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			var problems []error
			bytes := allocated(func() { _, problems = manifest.Decode("f", []byte(text)) })
			require.NotEmpty(t, problems)
			require.LessOrEqual(t, len(problems), 1_001)
			require.Less(t, bytes, uint64(200*len(text)+16<<20), "%d bytes of text", len(text))
		})
	}
}
