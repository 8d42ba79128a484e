// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Dataplane is a dataplane.Dataplane that keeps a file. It is not safe for concurrent use.
type Dataplane struct {
	path   string
	inSync bool
	want   map[policy.Key]*dataplane.Endpoint
}

// New returns a dataplane that keeps the file at a path. No other program may write to it.
func New(path string) *Dataplane {
	return &Dataplane{path: path, want: map[policy.Key]*dataplane.Endpoint{}}
}

// Apply adds the batch to the desired state and, once that is in sync, writes the file.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	for _, e := range b.Events {
		switch e := e.(type) { // the file has nothing of other events
		case *dataplane.EndpointUpdate:
			d.want[e.Key] = e.Endpoint
		case *dataplane.EndpointRemove:
			delete(d.want, e.Key)
		case *dataplane.InSync:
			d.inSync = true
		}
	}
	return d.Resync(ctx)
}

// Resync writes the file if it differs. It writes a new file and renames it, so no reader gets a
// partial file.
func (d *Dataplane) Resync(context.Context) error {
	have, err := os.ReadFile(d.path)
	if !d.inSync || err == nil && string(have) == d.text() {
		return nil
	}
	if err = os.WriteFile(d.path+".new", []byte(d.text()), 0o644); err == nil {
		err = os.Rename(d.path+".new", d.path)
	}
	if err != nil {
		return &dataplane.ApplyError{Backend: "hosts", Op: "write file", Err: err}
	}
	return nil
}

// Teardown removes the file and clears the desired state.
func (d *Dataplane) Teardown(context.Context) error {
	*d = *New(d.path)
	if err := os.Remove(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &dataplane.ApplyError{Backend: "hosts", Op: "remove file", Err: err}
	}
	return nil
}

func (d *Dataplane) text() string {
	out := strings.Builder{}
	out.WriteString("# The workloads of this node. Changes are overwritten.\n")
	for _, key := range slices.SortedFunc(maps.Keys(d.want), policy.Key.Compare) {
		for _, addr := range d.want[key].Addresses {
			fmt.Fprintf(&out, "%s %s.%s\n", addr, key.Name, key.Namespace)
		}
	}
	return out.String()
}
