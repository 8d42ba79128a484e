// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/workload"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// snapshotLabels sets the six labels of endpoint number s of W1, with newly allocated strings.
func snapshotLabels(into labels, m []string, s int) {
	clear(into)
	for _, n := range []int{10, 11, 20, 30, 40} {
		into["one-in-"+strconv.Itoa(n)] = "value-" + strconv.Itoa(s%n)
	}
	into[strings.Clone(m[s%31])] = "true"
}

// isolatedLabels sets the labels of a pod of W4: 15, of which 5 have a value that no other pod has.
func isolatedLabels(into labels, s int) {
	clear(into)
	for i := range 10 {
		into["shared-label-"+strconv.Itoa(i)] = "value-" + strconv.Itoa(s%(i+2))
	}
	for i := range 5 {
		into["unique-label-"+strconv.Itoa(i)] = fmt.Sprintf("value-%d-of-pod-%06d", i, s)
	}
}

// pods returns the names of n items, sorted.
func pods(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("host/k8s/wep-%06d/eth0", i)
	}
	return names
}

// namespaces returns a list of one distinct parent for each of n items.
func namespaces(n int) [][]string {
	lists := make([][]string, n)
	for i := range lists {
		lists[i] = []string{"namespace-" + strconv.Itoa(i)}
	}
	return lists
}

// newCounting returns an index and the number of its reports.
func newCounting(t testing.TB) (*index, *int) {
	reports := new(int)
	x, err := labelindex.New(labelindex.Config[string, string]{
		CompareItems:     strings.Compare,
		CompareSelectors: strings.Compare,
		Started:          func(_, _ string) { *reports++ },
		Stopped:          func(_, _ string) { *reports++ },
	})
	require.NoError(t, err)
	return x, reports
}

// loadSnapshot adds the endpoints of W1 and the profiles from which they inherit.
func loadSnapshot(x *index, names []string) {
	m, own := workload.Markers(), labels{}
	for i := range 100 {
		x.UpdateParent("namespace-"+strconv.Itoa(i), labels{"profile": strconv.Itoa(i)})
	}
	parents := namespaces(100)
	for i, name := range names {
		snapshotLabels(own, m, i+1)
		x.UpdateItem(name, own, parents[i%100])
	}
}

func loadIsolated(x *index, names []string) {
	own := labels{}
	for i, name := range names {
		isolatedLabels(own, i)
		x.UpdateItem(name, own, nil)
	}
}
