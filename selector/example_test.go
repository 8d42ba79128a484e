// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"fmt"

	"github.com/wayleave/wayleave/selector"
)

func ExampleParse() {
	sel, err := selector.Parse(`role in {'fe','be'} && !has(debug)`)
	if err != nil {
		panic(err)
	}
	fmt.Println(sel)
	fmt.Println(sel.Match(selector.Map{"role": "fe"}))
	fmt.Println(sel.Match(selector.Map{"role": "fe", "debug": "1"}))

	_, err = selector.Parse(`role = "fe"`)
	fmt.Println(err)
	// Output:
	// (role in {"be", "fe"} && !has(debug))
	// true
	// false
	// selector: pos 5: expected "==", "!=", "in", "not in", "contains", "starts with" or "ends with", found '='
}

func ExampleAnd() {
	fe := selector.Or(selector.Equal("role", "fe"), selector.StartsWith("role", "fe-"))
	sel := selector.And(selector.Equal("tenant", "a"), fe)
	fmt.Println(sel)
	fmt.Println(selector.Not(sel))
	fmt.Println(selector.Has("no such name").Err())
	// Output:
	// (tenant == "a" && (role == "fe" || role starts with "fe-"))
	// !(tenant == "a" && (role == "fe" || role starts with "fe-"))
	// selector: label name "no such name": illegal character at 2
}

func ExampleSelector_MapTerms() {
	sel, err := selector.Parse(`all() || env == "prod"`)
	if err != nil {
		panic(err)
	}
	fmt.Println(sel.MapTerms(func(t selector.Term) *selector.Selector {
		if t.Op == selector.OpAll {
			return selector.Has("namespace")
		}
		return t.Selector()
	}))
	fmt.Println(sel.PrefixLabels("pcns."))
	// Output:
	// (has(namespace) || env == "prod")
	// (all() || pcns.env == "prod")
}
