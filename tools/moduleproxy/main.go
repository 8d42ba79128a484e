// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

func main() {
	version := flag.String("version", "", "the version of all modules, as v0.1.0")
	commit := flag.String("commit", "HEAD", "the commit to publish")
	out := flag.String("out", "", "the folder to write to")
	flag.Parse()
	folders := flag.Args()
	if len(folders) == 0 {
		folders = []string{"."}
	}
	if err := run(*version, *commit, *out, folders); err != nil {
		fmt.Fprintln(os.Stderr, "moduleproxy:", err)
		os.Exit(1)
	}
}

func run(version, commit, out string, folders []string) error {
	if semver.Canonical(version) != version || version == "" {
		return fmt.Errorf("-version %q is not of the form v1.2.3", version)
	}
	if out == "" {
		return errors.New("-out is missing")
	}
	var mods []*mod
	for _, folder := range folders {
		m, err := readMod(commit, folder)
		if err != nil {
			return fmt.Errorf("module %s: %w", folder, err)
		}
		mods = append(mods, m)
	}
	for _, m := range mods {
		if err := errors.Join(m.check(mods, version), m.publish(version, commit, out)); err != nil {
			return fmt.Errorf("module %s: %w", m.folder, err)
		}
	}
	return nil
}

// mod is one module of the commit.
type mod struct {
	folder string // slashes
	text   []byte // of go.mod
	file   *modfile.File
}

// readMod reads the go.mod of a folder from a commit.
func readMod(commit, folder string) (*mod, error) {
	folder = path.Clean(filepath.ToSlash(folder))
	name := path.Join(folder, "go.mod")
	text, err := git("show", commit+":"+name)
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(name, text, nil)
	return &mod{folder, text, file}, err
}

// check returns an error if the published module could not be used: with replace directives,
// `go install` refuses it, and a required version has to exist.
func (m *mod) check(all []*mod, version string) error {
	if len(m.file.Replace) > 0 {
		return fmt.Errorf("go.mod replaces %s", m.file.Replace[0].Old.Path)
	}
	for _, req := range m.file.Require {
		for _, other := range all {
			if req.Mod.Path == other.file.Module.Mod.Path && req.Mod.Version != version {
				return fmt.Errorf("go.mod requires %s, not %s", req.Mod, version)
			}
		}
	}
	return nil
}

// publish writes the files of the module, in the layout of the GOPROXY protocol.
func (m *mod) publish(version, commit, out string) error {
	escaped, err := module.EscapePath(m.file.Module.Mod.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	stamp, err := git("show", "-s", "--format=%cI", commit+"^{commit}") // of a tag, too
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(stamp)))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, at.UTC()})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": m.text,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	subdir := strings.TrimPrefix(m.folder, ".") // CreateFromVCS has no name for the root but ""
	mv := module.Version{Path: m.file.Module.Mod.Path, Version: version}
	return errors.Join(zip.CreateFromVCS(file, mv, ".", commit, subdir), file.Close())
}

// git returns the output of a git command.
func git(args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}
