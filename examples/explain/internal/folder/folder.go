// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Config configures Read.
type Config struct {
	// Paths are files and folders. In a folder, the files that end in .yaml, .yml and .json are
	// read. Required.
	Paths []string
	// Recursive means that subfolders are read, too. Otherwise they are ignored, and Folder.Notes
	// lists them.
	Recursive bool
	// Assume means that pods without a node or addresses get assumed ones, see convert.Assume.
	// Folder.Notes lists these pods. Otherwise such pods are left out.
	Assume bool
}

// Folder has the content of the manifests. It does not change, so it is safe for concurrent use.
type Folder struct {
	// World has the resources of all objects that were understood.
	World verdict.World
	// Evaluator evaluates flows with the resources of World.
	Evaluator *verdict.Evaluator
	// Index finds the pods by name, including pods that are not endpoints.
	Index *probe.Index
	// Rejected has an error for each object of the manifests that is not in World.
	Rejected []error
	// Notes describe parts that were left out because they have no effect on the results, or
	// because of the Config. They also list the assumed nodes and addresses.
	Notes []string
}

// Read reads manifests. Errors: a path cannot be read, or no file has a manifest.
func Read(cfg Config) (*Folder, error) {
	f := &Folder{World: verdict.World{}}
	var files []string
	for _, path := range cfg.Paths {
		found, err := f.list(path, cfg.Recursive)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) == 0 {
		return nil, fmt.Errorf("no manifests (%s) in %s",
			strings.Join(manifest.Extensions(), ", "), strings.Join(cfg.Paths, ", "))
	}
	reader := manifest.Reader{Converter: convert.Converter{AssumeNetwork: cfg.Assume}}
	resources, problems := reader.ReadFiles(files...)
	if cfg.Assume {
		var assumed []convert.Assumed
		resources, assumed = convert.Assume(resources)
		f.noteAssumed(assumed)
	}
	f.World.Set(resources...)
	for _, problem := range problems {
		if errors.Is(problem, convert.ErrIgnored) {
			f.Notes = append(f.Notes, problem.Error())
		} else {
			f.Rejected = append(f.Rejected, problem)
		}
	}
	f.Evaluator = verdict.New(f.World)
	invalid := f.Evaluator.Rejected()
	for _, key := range slices.SortedFunc(maps.Keys(invalid), policy.Key.Compare) {
		f.Rejected = append(f.Rejected, invalid[key])
		delete(f.World, key) // the evaluator does not use the object either
	}
	f.Index = probe.NewIndex(f.World, outsiders(files, f.World)...)
	if len(f.World) == 0 && len(f.Rejected) == 0 {
		return nil, fmt.Errorf("no objects in %s", strings.Join(cfg.Paths, ", "))
	}
	return f, nil
}

// noteAssumed adds notes about assumed nodes and addresses of pods.
func (f *Folder) noteAssumed(assumed []convert.Assumed) {
	for _, a := range assumed {
		var parts []string
		if a.Node {
			parts = append(parts, "node "+convert.AssumedNode)
		}
		for _, addr := range a.Addresses {
			parts = append(parts, addr.String())
		}
		f.Notes = append(f.Notes,
			fmt.Sprintf("%s/%s is assumed to have %s", a.Key.Namespace, a.Key.Name, strings.Join(parts, ", ")))
	}
}

// list returns the manifest files at a path.
func (f *Folder) list(path string, recursive bool) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{filepath.Clean(path)}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		hidden := at != path && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir() && at != path && !recursive:
			f.Notes = append(f.Notes, at+": a folder in a folder is read with --recursive only")
			return fs.SkipDir
		case !entry.IsDir() && !hidden && slices.Contains(manifest.Extensions(), filepath.Ext(at)):
			files = append(files, at)
		}
		return nil
	})
	return files, err
}
