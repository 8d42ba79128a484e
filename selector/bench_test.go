// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"strings"
	"testing"

	"github.com/wayleave/wayleave/selector"
)

// parseText is the selector that the benchmark of the reference implementation parses.
const parseText = `! (a == "b"&&! c != "d") || !(a == "b" && !c != "d")`

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := selector.Parse(parseText); err != nil {
			b.Fatal(err)
		}
	}
}

var benchLabels = map[string]string{
	"app": "shop", "role": "frontend", "tier": "web", "env": "prod", "version": "v12", "pod-template-hash": "5d4f8c7b9",
}

var benchSelectors = map[string]string{
	"terms=1": `role == "frontend"`,
	"terms=5": `role == "frontend" && app in {"shop", "store"} && env != "test" && has(version) && ` +
		`tier starts with "w"`,
}

func BenchmarkMatch(b *testing.B) {
	kinds := []struct {
		name   string
		labels selector.Labels
	}{
		{"compact", selector.NewCompact(benchLabels)},
		{"map", selector.Map(benchLabels)},
		{"other", other{selector.Map(benchLabels)}},
	}
	for _, terms := range []string{"terms=1", "terms=5"} {
		sel := parse(b, benchSelectors[terms])
		for _, kind := range kinds {
			b.Run(terms+"/"+kind.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					sel.Match(kind.labels)
				}
			})
		}
	}
	b.Run("floor/Go map look-up", func(b *testing.B) {
		name := strings.Clone("role") // equal names of two objects rarely share memory
		b.ReportAllocs()
		for b.Loop() {
			_ = benchLabels[name]
		}
	})
}

func BenchmarkID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = selector.Has("a").ID() // computed once for each selector
	}
}

func BenchmarkRestrictions(b *testing.B) {
	sel := parse(b, benchSelectors["terms=5"])
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			selector.Not(sel).Restrictions() // computed once for each selector
		}
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sel.Restrictions()
		}
	})
}

func BenchmarkNewCompact(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		selector.NewCompact(benchLabels)
	}
}
