// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

//go:embed demo/*.yaml
var embedded embed.FS

// demoManifests returns the demo's own manifests.
func demoManifests() fs.FS {
	sub, err := fs.Sub(embedded, "demo")
	if err != nil {
		return embedded // cannot happen, because the name is right
	}
	return sub
}

// demoEdit is the change that the demo makes to its own manifests while the agent runs.
const demoEdit = "10-pods.yaml: stage: live => stage: quarantine"

// outside returns the host outside of the node.
func outside() node.Party {
	return node.Party{
		Name:      "outside",
		Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.10"), netip.MustParseAddr("2001:db8:f::10")},
		Ports: []policy.EndpointPort{
			{Name: "https", Protocol: policy.ProtocolTCP, Port: 443},
			{Name: "ntp", Protocol: policy.ProtocolUDP, Port: 123},
		},
	}
}

// directory returns a directory's files.
func directory(path string) (fs.FS, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return nil, fmt.Errorf("--manifests: %w", noFolder(err))
	}
	return os.DirFS(path), nil
}

// folder is the directory that the agent watches in the demo, with the files to write to it.
type folder struct {
	path  string
	files map[string]string // name -> content
	// base are the files that only have pods and namespaces. rest are all other files.
	base, rest []string
	// endpoints of the node.
	node      string
	endpoints []*policy.WorkloadEndpoint
}

// newFolder makes an empty directory, and divides the files of the source into base and rest.
func newFolder(source fs.FS) (*folder, error) {
	entries, err := fs.ReadDir(source, ".")
	if err != nil {
		return nil, err
	}
	f := &folder{files: map[string]string{}}
	reader := manifest.Reader{Converter: convert.Converter{TrustAnnotations: true}}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || strings.HasPrefix(name, ".") ||
			!slices.Contains(manifest.Extensions(), filepath.Ext(name)) {
			continue
		}
		data, err := fs.ReadFile(source, name)
		if err != nil {
			return nil, err
		}
		f.files[name] = string(data)
		resources, _ := reader.Decode(name, data) // the agent logs the errors
		if err := f.sortIn(name, resources); err != nil {
			return nil, err
		}
	}
	if len(f.endpoints) == 0 {
		return nil, errors.New("demo: the manifests have no pod with a node and an address: set spec.nodeName and " +
			"status.podIPs")
	}
	f.path, err = os.MkdirTemp("", "wayleave-demo-")
	return f, err
}

// sortIn adds a file to base or rest.
func (f *folder) sortIn(name string, resources []policy.Resource) error {
	var pods, others int
	for _, r := range resources {
		switch r := r.(type) {
		case *policy.WorkloadEndpoint:
			pods++
			if f.node == "" {
				f.node = r.Node
			}
			if r.Node == f.node {
				f.endpoints = append(f.endpoints, r)
			}
		case *policy.Profile:
		default:
			others++
		}
	}
	switch {
	case pods > 0 && others > 0:
		return fmt.Errorf("demo: %s has pods beside policies: put them into separate files", name)
	case others > 0 || len(resources) == 0:
		f.rest = append(f.rest, name)
	default:
		f.base = append(f.base, name)
	}
	return nil
}

// write puts files into the directory.
func (f *folder) write(names []string) error {
	for _, name := range names {
		if err := f.replace(name, f.files[name]); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file atomically.
func (f *folder) replace(name, content string) error {
	half := filepath.Join(f.path, "."+name+".new")
	if err := os.WriteFile(half, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(half, filepath.Join(f.path, name))
}

func (f *folder) remove() error { return os.RemoveAll(f.path) }

// edit is a change of a file's text.
type edit struct{ file, old, new string }

// String describes the change.
func (e *edit) String() string { return fmt.Sprintf("%s: %s => %s", e.file, e.old, e.new) }

// parseEdit parses a change, and checks that it can be made in exactly one place.
func (f *folder) parseEdit(text string) (*edit, error) {
	file, change, ok1 := strings.Cut(text, ": ")
	before, after, ok2 := strings.Cut(change, " => ")
	if !ok1 || !ok2 {
		return nil, cli.Usagef("--edit: want \"FILE: OLD => NEW\"")
	}
	content, known := f.files[file]
	if n := strings.Count(content, before); !known || n != 1 {
		return nil, cli.Usagef("--edit: %q is %d times in %q: want it once", before, n, file)
	}
	return &edit{file: file, old: before, new: after}, nil
}

// apply makes the change in the directory.
func (f *folder) apply(e *edit) error {
	return f.replace(e.file, strings.Replace(f.files[e.file], e.old, e.new, 1))
}
