// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// A Dir sends 12,000 objects in several calls before InSync. It does not keep decoded endpoints in
// memory.
func TestDirReleasesDecodedObjects(t *testing.T) {
	f := &folder{t: t, path: t.TempDir()}
	f.write("all.json", "")
	const objects = 12_000
	var one weak.Pointer[policy.WorkloadEndpoint]
	decode := func(string, []byte) (all []policy.Resource, _ []error) {
		for i := range objects {
			all = append(all, &policy.WorkloadEndpoint{
				Namespace: "ns", Name: fmt.Sprint(i), Node: "n", Labels: map[string]string{"app": "web"},
			})
		}
		one = weak.Make(all[objects/2].(*policy.WorkloadEndpoint))
		return all, nil
	}
	source, err := datastore.NewDir(datastore.DirConfig{Path: f.path, Decode: decode})
	require.NoError(t, err)
	r := &counter{synced: make(chan struct{})}
	start(t, source, r)
	select {
	case <-r.synced:
	case <-time.After(waitTimeout):
		require.Fail(t, "not in sync")
	}
	require.Equal(t, objects, r.updates)
	require.Less(t, r.most, objects)
	for deadline := time.Now().Add(waitTimeout); one.Value() != nil; runtime.GC() {
		require.False(t, time.Now().After(deadline), "a decoded resource is still in memory")
	}
}

// counter counts updates until all is in sync.
type counter struct {
	updates, most int
	synced        chan struct{}
}

func (c *counter) Update(_ context.Context, updates []policy.Update) error {
	c.updates += len(updates)
	c.most = max(c.most, len(updates))
	return nil
}

func (c *counter) InSync(context.Context) error {
	close(c.synced)
	return nil
}
