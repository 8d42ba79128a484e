// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

var _ datastore.Source = (*Registry)(nil)

// The names of endpoints' files end with suffix. While a file is being written, its name begins
// with half and has no suffix.
const suffix, half = ".json", ".half-"

// Registry keeps endpoints. It is safe for concurrent use.
type Registry struct {
	dir    string
	memory datastore.Memory

	mu        sync.Mutex // held while disk and memory differ
	endpoints map[policy.Key]*policy.WorkloadEndpoint
}

// Open reads the endpoints that an earlier process has stored. It creates the directory if it does
// not exist. If a file is invalid, its endpoint is not registered, and problems has an error for
// the file. Open removes files that an earlier process did not finish because it was killed.
func Open(dir string) (r *Registry, problems []error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("registry: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("registry: %w", err)
	}
	r = &Registry{dir: dir, endpoints: map[policy.Key]*policy.WorkloadEndpoint{}}
	var updates []policy.Update
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !strings.HasSuffix(entry.Name(), suffix) {
			if strings.HasPrefix(entry.Name(), half) {
				_ = os.Remove(path) // a file that stays is ignored
			}
			continue
		}
		e, err := read(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("registry: %s: %w", entry.Name(), err))
			continue
		}
		r.endpoints[e.Key()] = e
		updates = append(updates, policy.Update{Key: e.Key(), Resource: e})
	}
	return r, problems, r.memory.Update(context.Background(), updates)
}

func read(path string) (*policy.WorkloadEndpoint, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	resource, err := policy.Decode(data)
	if err != nil {
		return nil, err
	}
	e, ok := resource.(*policy.WorkloadEndpoint)
	if !ok {
		return nil, fmt.Errorf("is a %s, not an endpoint", resource.Key().Kind)
	}
	if want := name(e.Key()); filepath.Base(path) != want {
		return nil, fmt.Errorf("has the endpoint of %s", want)
	}
	return e, e.Validate()
}

// name returns the name of an endpoint's file.
func name(k policy.Key) string { return api.RegistrationFile(k) }

// Run sends the endpoints; see datastore.Source.
func (r *Registry) Run(ctx context.Context, receiver datastore.Receiver) error {
	return r.memory.Run(ctx, receiver)
}

// Barrier waits until the receivers have all endpoints that were registered before the call; see
// datastore.Memory.
func (r *Registry) Barrier(ctx context.Context) error { return r.memory.Barrier(ctx) }

// Put registers an endpoint. If an endpoint with the same key is registered, Put replaces it. Once
// Put has returned nil, the endpoint survives a crash.
//
// Put returns an error if the endpoint is invalid or its file cannot be written. After an error,
// the registered endpoints are as before. But if only the sync of the directory fails, the new file
// stays on the disk, and the next process may read it.
func (r *Registry) Put(ctx context.Context, e *policy.WorkloadEndpoint) error {
	if err := e.Validate(); err != nil {
		return err
	}
	data, err := policy.Encode(e)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.write(name(e.Key()), data); err != nil {
		return fmt.Errorf("registry: register %s: %w", e.Key(), err)
	}
	r.endpoints[e.Key()] = e
	return r.memory.Update(context.WithoutCancel(ctx), []policy.Update{{Key: e.Key(), Resource: e}})
}

// write writes a file atomically.
func (r *Registry) write(file string, data []byte) (err error) {
	part, err := os.CreateTemp(r.dir, half+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	_, err = part.Write(data)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	if err = os.Rename(part.Name(), filepath.Join(r.dir, file)); err != nil {
		return err
	}
	return r.sync()
}

// sync makes the last renames and removals durable.
func (r *Registry) sync() error {
	dir, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Delete removes an endpoint. It is not an error if the endpoint does not exist. If its file cannot
// be removed, Delete returns an error, and the endpoint stays registered. If only the sync of the
// directory fails, Delete also returns an error, but the endpoint is no longer registered. The file
// may then exist again after a crash of the machine.
func (r *Registry) Delete(ctx context.Context, k policy.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := os.Remove(filepath.Join(r.dir, name(k)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("registry: delete %s: %w", k, err)
	}
	delete(r.endpoints, k)
	forgotten := r.memory.Update(context.WithoutCancel(ctx), []policy.Update{{Key: k}})
	if err == nil { // there was a file
		err = r.sync()
	} else {
		err = nil
	}
	return errors.Join(forgotten, err)
}

// Get returns the endpoint with the key k, or nil if there is none. The caller must not change it.
func (r *Registry) Get(k policy.Key) *policy.WorkloadEndpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endpoints[k]
}

// All returns all endpoints, sorted by key. The caller must not change them.
func (r *Registry) All() []*policy.WorkloadEndpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.endpoints), func(a, b *policy.WorkloadEndpoint) int {
		return a.Key().Compare(b.Key())
	})
}

// Owner returns an endpoint with the address addr, or nil if there is none. The caller must not
// change it.
func (r *Registry) Owner(addr netip.Addr) *policy.WorkloadEndpoint {
	return r.find(func(e *policy.WorkloadEndpoint) bool { return slices.Contains(e.Addresses, addr) })
}

// OnInterface returns an endpoint whose interface has this name, or nil if there is none. The
// second parameter is the key of an endpoint to skip. The caller must not change the result.
func (r *Registry) OnInterface(name string, ignored policy.Key) *policy.WorkloadEndpoint {
	return r.find(func(e *policy.WorkloadEndpoint) bool { return e.Interface == name && e.Key() != ignored })
}

func (r *Registry) find(fits func(*policy.WorkloadEndpoint) bool) *policy.WorkloadEndpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.endpoints {
		if fits(e) {
			return e
		}
	}
	return nil
}
