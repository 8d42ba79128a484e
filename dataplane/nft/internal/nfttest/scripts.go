// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/txtar"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

// Script is a parsed testdata/*.txtar. Its first comment says why the scenario exists. The names of
// some sections begin with FORM, which is "chains" or "lookups". The sections are:
//
//   - "update" has updates in the language of internal/worldtext.
//   - "FORM ruleset" has the expected sets and chains after the updates, except those that a node
//     without any resources has, too.
//   - "FORM delta" has the expected operations on the nftables table.
//   - "interfaces" has a line "NAME KIND MASTER" for each interface that is a port of a bridge or
//     another master device.
//   - "faults" has the expected errors.
type Script struct {
	Path    string
	Archive txtar.Archive
}

// ReadScripts reads DIR/*.txtar.
func ReadScripts(t *testing.T, dir string) (out []Script) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		s := Script{path, txtar.Parse(data)}
		require.NotEmpty(
			t, strings.TrimSpace(string(s.Archive.Comment)), "%s: the first line says why the scenario exists", path,
		)
		out = append(out, s)
	}
	return out
}

// Name returns the name of the file without its extension.
func (s Script) Name() string { return strings.TrimSuffix(filepath.Base(s.Path), ".txtar") }

// Steps returns the updates of each section "update".
func (s Script) Steps(t *testing.T) (out [][]policy.Update) {
	t.Helper()
	for _, f := range s.Archive.Files {
		if f.Name == "update" {
			updates, _, err := worldtext.Parse(string(f.Data))
			require.NoError(t, err, s.Path)
			out = append(out, updates)
		}
	}
	return out
}
