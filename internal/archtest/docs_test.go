// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const spdx = "// SPDX-License-Identifier: Apache-2.0"

func TestEveryPackageHasDocGo(t *testing.T) {
	type pkg struct{ doc *ast.CommentGroup }
	packages := map[string]*pkg{}
	for _, src := range sources(t) {
		if src.isTest() {
			continue
		}
		if packages[src.dir] == nil {
			packages[src.dir] = &pkg{}
		}
		if path.Base(src.path) == "doc.go" {
			packages[src.dir].doc = src.file.Doc
		}
	}
	var offenders []string
	for dir, p := range packages {
		if p.doc == nil {
			offenders = append(offenders, dir+": no doc.go with a package comment")
			continue
		}
		for _, section := range []string{"# Usage", "# Concurrency", "# Errors"} {
			if !strings.Contains(p.doc.Text(), section+"\n") {
				offenders = append(offenders, fmt.Sprintf("%s: doc.go has no section %q", dir, section))
			}
		}
	}
	report(t, "packages without documentation", offenders)
}

func TestEveryExportIsDocumented(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		if src.isTest() {
			continue
		}
		for _, decl := range src.file.Decls {
			for _, name := range undocumented(decl) {
				offenders = append(offenders, src.path+": "+name)
			}
		}
	}
	report(t, "exports without a comment", offenders)
}

func TestEveryFileHasALicense(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		if len(src.file.Comments) == 0 || src.file.Comments[0].List[0].Text != spdx {
			offenders = append(offenders, src.path)
		}
	}
	report(t, "files that do not begin with the SPDX line", offenders)
}

// TestEveryScriptHasALicense checks that scripts, the Makefile and files to deploy have the SPDX
// line in their first five lines.
func TestEveryScriptHasALicense(t *testing.T) {
	paths := []string{"Makefile", ".ci/run"}
	for _, pattern := range []string{"scripts/*", "examples/agent/deploy/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, file := range found {
			rel, err := filepath.Rel(root, file)
			require.NoError(t, err)
			paths = append(paths, rel)
		}
	}
	var offenders []string
	for _, file := range paths {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		lines := strings.SplitN(string(text), "\n", 6)
		if !slices.Contains(lines[:min(5, len(lines))], "# SPDX-License-Identifier: Apache-2.0") {
			offenders = append(offenders, file)
		}
	}
	report(t, "scripts without the SPDX line", offenders)
}

// undocumented returns the exported names of a declaration that have no comment. A group of
// constants or variables may be documented as a group.
func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen != token.NoPos) {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
						names = append(names, name.Name)
					}
				}
			}
		}
		return names
	}
	return nil
}

// exportedReceiver reports whether a function can be called from outside: it is not a method, or
// the method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
