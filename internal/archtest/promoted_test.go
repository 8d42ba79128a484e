// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// structMethods has the methods and embedded types of the structs of the data plane, by folder and
// name.
type structMethods struct {
	own    map[string]map[string]bool
	embeds map[string][]string
}

// structMethodsOf reads the structs of the data plane and their methods.
func structMethodsOf(t *testing.T) *structMethods {
	m := &structMethods{own: map[string]map[string]bool{}, embeds: map[string][]string{}}
	for _, src := range sources(t) {
		stub := strings.HasSuffix(src.path, "_other.go") // another file declares the type in full
		if src.isTest() || stub || src.dir == "dataplane/nft/internal/nfttest" {
			continue
		}
		ast.Inspect(src.file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.TypeSpec:
				if st, ok := x.Type.(*ast.StructType); ok {
					m.embeds[src.dir+"."+x.Name.Name] = embedded(src, st)
				}
			case *ast.FuncDecl:
				if x.Recv != nil {
					name := src.dir + "." + receiver(x)
					if m.own[name] == nil {
						m.own[name] = map[string]bool{}
					}
					m.own[name][x.Name.Name] = true
				}
			}
			return true
		})
	}
	return m
}

// embedded returns the types of this module that a struct embeds.
func embedded(src source, st *ast.StructType) (names []string) {
	for _, f := range st.Fields.List {
		if len(f.Names) > 0 {
			continue
		}
		typ := f.Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		if generic, ok := typ.(*ast.IndexExpr); ok {
			typ = generic.X
		}
		switch typ := typ.(type) {
		case *ast.Ident:
			names = append(names, src.dir+"."+typ.Name)
		case *ast.SelectorExpr:
			if dir, ok := importedDir(src, typ.X.(*ast.Ident).Name); ok {
				names = append(names, dir+"."+typ.Sel.Name)
			}
		}
	}
	return names
}

// importedDir returns the folder of a package of this module that a file imports by the name.
func importedDir(src source, name string) (string, bool) {
	for _, spec := range src.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		dir, ours := strings.CutPrefix(imported, module+"/")
		local := path.Base(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if err == nil && ours && local == name {
			return dir, true
		}
	}
	return "", false
}

// callable returns the names of the methods that the struct's package can call on it: its own, and
// those of the structs that it embeds.
func (m *structMethods) callable(name string) map[string]bool {
	all := maps.Clone(m.own[name])
	if all == nil {
		all = map[string]bool{}
	}
	for _, inner := range m.embeds[name] {
		for method := range m.callable(inner) {
			if dirOf(inner) == dirOf(name) || ast.IsExported(method) {
				all[method] = true
			}
		}
	}
	return all
}

// dirOf returns the folder in the name of a struct.
func dirOf(name string) string { return name[:strings.LastIndexByte(name, '.')] }

// manyMethods has the structs with more methods than the limit, including promoted methods, and
// their number. The list and the numbers may only shrink.
func manyMethods() map[string]int {
	return map[string]int{
		// A recursive descent parser: each layer uses the methods of the one below.
		"dataplane/nft/ruleset.parser": 61, "dataplane/nft/ruleset.ruleParser": 55,
		"dataplane/nft/ruleset.setParser": 39,
		// Writers of netlink attributes, which write every expression.
		"dataplane/nft/internal/encode.exprs": 37,
		// Close to the limit: each embeds one small part that all its methods use.
		"dataplane/nft/internal/owners.Tracker": 32, "dataplane/nft/prove.task": 31,
		"dataplane/nft/ruleset.validator": 32, "dataplane/nft/ruleset/simulate.run": 31,
	}
}

// TestPromotedMethodsCount limits the number of methods of a struct, including methods of embedded
// structs.
func TestPromotedMethodsCount(t *testing.T) {
	const maxMethods = 30
	m, known := structMethodsOf(t), manyMethods()
	var offenders []string
	for _, name := range slices.Sorted(maps.Keys(m.embeds)) {
		if dir := dirOf(name); dir != "dataplane" && !strings.HasPrefix(dir, "dataplane/") {
			continue
		}
		n, most := len(m.callable(name)), max(known[name], maxMethods)
		if n > most {
			offenders = append(offenders, fmt.Sprintf("%s: %d methods, at most %d", name, n, most))
		}
		if known[name] > 0 && n < known[name] {
			offenders = append(offenders, fmt.Sprintf("%s: %d methods, but listed with %d", name, n, known[name]))
		}
		delete(known, name)
	}
	report(t, "structs that have too many methods, promoted ones included", offenders)
	require.Empty(t, known, "listed structs that do not exist")
}
