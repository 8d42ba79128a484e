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

func ExampleSelector_Terms() {
	sel, err := selector.Parse(`role == "fe" && !has(debug)`)
	if err != nil {
		panic(err)
	}
	for term := range sel.Terms() {
		fmt.Println(term.Label, term.Op, term.Values)
	}
	// Output:
	// role == [fe]
	// debug has []
}

// An index can file the selector under role=fe and role=be, because no other object can match.
func ExampleSelector_Restrictions() {
	sel, err := selector.Parse(`(role == "fe" || role == "be") && !has(debug) && zone != "z1"`)
	if err != nil {
		panic(err)
	}
	for _, r := range sel.Restrictions() {
		fmt.Println(r.Label, "present:", r.Present, "absent:", r.Absent, "one of:", r.OneOf)
	}
	// Output:
	// debug present: false absent: true one of: []
	// role present: true absent: false one of: [be fe]
}

func ExampleCompact() {
	sel := selector.Equal("role", "fe")
	labels := selector.NewCompact(map[string]string{"role": "fe", "zone": "z1"})
	fmt.Println(sel.Match(labels))
	for name, value := range labels.All() {
		fmt.Println(name, value)
	}
	// Output:
	// true
	// role fe
	// zone z1
}
