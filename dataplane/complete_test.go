// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

// The tests of this file fail when a type gets a field that Equal or String forgets.

// value is a type whose values are compared or printed, by its zero value.
type value struct{ zero any }

func values() []value {
	return []value{
		{dataplane.Rule{}},
		{dataplane.Match{}},
		{dataplane.Policy{}},
		{dataplane.Profile{}},
		{dataplane.Endpoint{}},
		{dataplane.HostEndpoint{}},
		{dataplane.TierPolicies{}},
		{dataplane.Member{}},
		{dataplane.Route{}},
		{dataplane.Tunnel{}},
		{dataplane.TunnelKey{}},
		{dataplane.Node{}},
		{dataplane.Pool{}},
		{dataplane.Service{}},
		{dataplane.Namespace{}},
		{dataplane.ServiceAccount{}},
		{dataplane.ServiceAccountKey{}},
	}
}

// hidden reports whether String does not show a field. String does not show the ID of a rule. It
// does not show the name of a port either, because ports in rules have no name.
func (v value) hidden(path string) bool {
	rules := regexp.MustCompile(
		`^(\.(Ingress|Egress)\[\d\])?(\.ID|(\.Source|\.Destination)?\.(Not)?Ports\[\d\]\.Name)$`,
	)
	return rules.MatchString(path)
}

// filled returns a pointer to a new value of the type in which every field is set.
func (v value) filled() reflect.Value {
	p := reflect.New(reflect.TypeOf(v.zero))
	fieldwalk.Fill(p.Elem(), policy.PortRange(80, 90))
	return p
}

// eachChange calls f with pairs of values that differ in one part.
func (v value) eachChange(f func(path string, a, b reflect.Value)) {
	for i := range fieldwalk.Changes(v.filled().Elem()) {
		a, b := v.filled(), v.filled()
		c := fieldwalk.Changes(b.Elem())[i]
		c.Do()
		f(c.Path, a, b)
	}
}

// equal calls Equal, which takes a value or a pointer, or compares where there is none.
func equal(a, b reflect.Value) bool {
	m := a.MethodByName("Equal")
	switch {
	case !m.IsValid() && a.MethodByName("Compare").IsValid():
		return a.MethodByName("Compare").Call([]reflect.Value{b.Elem()})[0].Int() == 0
	case !m.IsValid():
		return a.Elem().Interface() == b.Elem().Interface()
	case m.Type().In(0).Kind() != reflect.Pointer:
		b = b.Elem()
	}
	return m.Call([]reflect.Value{b})[0].Bool()
}

func TestEqualIsComplete(t *testing.T) {
	changed := 0
	for _, v := range values() {
		require.True(t, equal(v.filled(), v.filled()), "%T", v.zero)
		v.eachChange(func(path string, a, b reflect.Value) {
			require.False(t, equal(a, b), "%T%s", v.zero, path)
			require.False(t, equal(b, a), "%T%s", v.zero, path)
			changed++
		})
	}
	t.Logf("%d changes", changed)
}

func TestStringIsComplete(t *testing.T) {
	for _, v := range values() {
		text := func(p reflect.Value) string { return p.Interface().(fmt.Stringer).String() }
		v.eachChange(func(path string, a, b reflect.Value) {
			require.Equal(t, v.hidden(path), text(a) == text(b), "%T%s: %s", v.zero, path, text(b))
		})
	}
}

// Every type of the package that has Equal or Compare is in the list.
func TestValuesAreListed(t *testing.T) {
	listed := map[string]bool{}
	for _, v := range values() {
		listed[reflect.TypeOf(v.zero).Name()] = true
	}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	found := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "Equal" && f.Name.Name != "Compare" {
				continue
			}
			receiver := f.Recv.List[0].Type
			if p, ok := receiver.(*ast.StarExpr); ok {
				receiver = p.X
			}
			name := receiver.(*ast.Ident).Name
			require.True(t, listed[name], "%s is not in the list of values", name)
			found++
		}
	}
	require.Greater(t, found, 10)
}
