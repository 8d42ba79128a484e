// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/selector"
	"github.com/wayleave/wayleave/selector/labelindex"
)

func Example() {
	index, err := labelindex.New(labelindex.Config[string, string]{
		CompareItems:     strings.Compare,
		CompareSelectors: strings.Compare,
		Started:          func(sel, item string) { fmt.Println(sel, "starts to match", item) },
		Stopped:          func(sel, item string) { fmt.Println(sel, "stops matching", item) },
	})
	if err != nil {
		panic(err)
	}
	prodWeb, err := selector.Parse(`app == "web" && env == "prod"`)
	if err != nil {
		panic(err)
	}
	index.UpdateSelector("prod-web", prodWeb)
	index.UpdateItem("pod-1", map[string]string{"app": "web"}, []string{"ns-shop"})
	index.UpdateItem("pod-2", map[string]string{"app": "web", "env": "test"}, []string{"ns-shop"})
	index.UpdateParent("ns-shop", map[string]string{"env": "prod"})
	fmt.Println(slices.Collect(index.Items("prod-web")))
	index.DeleteParent("ns-shop")
	// Output:
	// prod-web starts to match pod-1
	// [pod-1]
	// prod-web stops matching pod-1
}

func ExampleIndex_Stats() {
	index, err := labelindex.New(labelindex.Config[int, string]{
		CompareItems:     cmp.Compare[int],
		CompareSelectors: strings.Compare,
	})
	if err != nil {
		panic(err)
	}
	for i := range 100 {
		index.UpdateItem(i, map[string]string{"app": "web", "shard": strconv.Itoa(i)}, nil)
	}
	index.UpdateSelector("one", selector.And(selector.Equal("app", "web"), selector.Equal("shard", "7")))
	index.UpdateSelector("same", selector.And(selector.Equal("app", "web"), selector.Equal("shard", "7")))
	index.UpdateSelector("rest", selector.NotEqual("shard", "7"))
	stats := index.Stats()
	fmt.Println(stats.Selectors, "selectors,", stats.Queries, "distinct,", stats.LooseQueries, "needs no label")
	fmt.Println(stats.Matches, "matches found in", stats.Evaluations, "comparisons")
	// Output:
	// 3 selectors, 2 distinct, 1 needs no label
	// 100 matches found in 101 comparisons
}

func ExampleIndex_Selectors() {
	index, err := labelindex.New(labelindex.Config[string, string]{
		CompareItems:     strings.Compare,
		CompareSelectors: strings.Compare,
	})
	if err != nil {
		panic(err)
	}
	index.UpdateParent("ns-shop", map[string]string{"env": "prod"})
	index.UpdateItem("pod-1", map[string]string{"app": "web"}, []string{"ns-shop"})
	index.UpdateSelector("web", selector.Equal("app", "web"))
	index.UpdateSelector("prod", selector.Equal("env", "prod"))
	index.UpdateSelector("test", selector.Equal("env", "test"))
	fmt.Println(slices.Collect(index.Selectors("pod-1")))
	// Output:
	// [prod web]
}
