// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An error of a configuration names its field, as in "calcgraph: Config.Node: required".
var (
	namesField    = regexp.MustCompile(`^[a-z0-9]+: [A-Za-z]*Config\.`)
	namesNoField  = regexp.MustCompile(`^[a-z0-9]+: (?:[A-Za-z]*C|c)onfig:? `)
	beginsAnError = regexp.MustCompile(`^[a-z0-9]+: `)
)

// configErrors returns the positions of error texts that do not name a field of a configuration. It
// checks the method validate of each type whose name ends in Config. Everywhere else, it checks
// texts that only mention a Config.
func configErrors(src source) (offenders []string) {
	for _, decl := range src.file.Decls {
		validates := false
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "validate" && f.Recv != nil {
			validates = strings.HasSuffix(receiverName(f.Recv.List[0].Type), "Config")
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(literal.Value) // the parser has checked it
			if namesNoField.MatchString(text) ||
				validates && beginsAnError.MatchString(text) && !namesField.MatchString(text) {
				offenders = append(offenders,
					fmt.Sprintf("%s:%d: %q", src.path, src.fset.Position(literal.Pos()).Line, text))
			}
			return true
		})
	}
	return offenders
}

// receiverName returns the name of a receiver's type, without * and type parameters.
func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.IndexListExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func TestConfigErrorsNameTheField(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		if !strings.HasSuffix(src.path, "_test.go") {
			offenders = append(offenders, configErrors(src)...)
		}
	}
	report(t, "errors of a configuration that do not begin with its type and field, as in "+
		`"calcgraph: Config.Node: required"`, offenders)
}

func TestConfigErrorsAreFound(t *testing.T) {
	for decl, want := range map[string][]string{
		`func (c DirConfig) validate() error { return errors.New("x: Path is required") }`: {
			`x.go:2: "x: Path is required"`,
		},
		`func (c *Config[I]) validate() error { return errors.New("x: Path: required") }`: {
			`x.go:2: "x: Path: required"`,
		},
		`func (c Config) validate() error { return errors.New("x: Config.Path: required") }`: nil,
		`func (r route) validate() error { return errors.New("x: route: no address") }`:      nil,
		`var err = errors.New("x: config: Path is missing")`: {
			`x.go:2: "x: config: Path is missing"`,
		},
		`var err = errors.New("x: XConfig: Path is nil")`: {
			`x.go:2: "x: XConfig: Path is nil"`,
		},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\n"+decl, 0)
		require.NoError(t, err)
		require.Equal(t, want, configErrors(source{path: "x.go", dir: ".", file: file, fset: fset}), decl)
	}
}
