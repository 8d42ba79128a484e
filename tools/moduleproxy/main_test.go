// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository makes a git repository with the files and one commit, and makes it the current folder.
func repository(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "-A"},
		{"-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "test"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

func TestZipHasFilesOfItsModuleOnly(t *testing.T) {
	repository(t, map[string]string{
		"LICENSE": "free", "go.mod": "module example.com/m\n", "m.go": "package m\n",
		"n/go.mod": "module example.com/m/n\nrequire example.com/m v1.0.0\n", "n/n.go": "package n\n",
	})
	if err := os.WriteFile("new.go", []byte("package m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := run("v1.0.0", "HEAD", out, []string{".", "n"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"example.com/m":   {"LICENSE", "go.mod", "m.go"},
		"example.com/m/n": {"LICENSE", "go.mod", "n.go"}, // with the license of the repository
	} {
		archive, err := zip.OpenReader(filepath.Join(out, path, "@v", "v1.0.0.zip"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range archive.File {
			got = append(got, strings.TrimPrefix(f.Name, path+"@v1.0.0/"))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnusableModulesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ mod, want string }{
		"replace":       {"module example.com/m/n\nreplace example.com/m => ../\n", "go.mod replaces example.com/m"},
		"other version": {"module example.com/m/n\nrequire example.com/m v0.0.0\n", "not v1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			repository(t, map[string]string{"go.mod": "module example.com/m\n", "n/go.mod": c.mod})
			err := run("v1.0.0", "HEAD", t.TempDir(), []string{".", "n"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestVersionIsChecked(t *testing.T) {
	for _, version := range []string{"", "1.0.0", "v1", "v1.0.0+x"} {
		if run(version, "HEAD", t.TempDir(), nil) == nil {
			t.Errorf("version %q was accepted", version)
		}
	}
}
