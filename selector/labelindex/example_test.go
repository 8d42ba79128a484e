// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"fmt"
	"slices"
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
