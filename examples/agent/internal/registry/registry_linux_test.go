// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/registry"
	"github.com/wayleave/wayleave/examples/internal/smalldisk"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func endpoint(name string) *policy.WorkloadEndpoint {
	return &policy.WorkloadEndpoint{
		Namespace: "shop", Name: name, Node: "n", Interface: "way" + name,
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
	}
}

// told collects the objects of a source until it is in sync.
type told struct {
	updates []policy.Update
	cancel  context.CancelFunc
}

func (r *told) Update(_ context.Context, updates []policy.Update) error {
	r.updates = append(r.updates, updates...)
	return nil
}

func (r *told) InSync(context.Context) error {
	r.cancel()
	return nil
}

// An address leads to the endpoint that has it, for as long as that is registered.
func TestHolder(t *testing.T) {
	r, _, err := registry.Open(t.TempDir())
	require.NoError(t, err)
	addr := netip.MustParseAddr("10.0.0.1")
	require.Nil(t, r.Holder(addr))
	require.NoError(t, r.Put(t.Context(), endpoint("a")))
	require.Equal(t, "a", r.Holder(addr).Name)
	require.Nil(t, r.Holder(addr.Next()))
	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()))
	require.Nil(t, r.Holder(addr))
}

func keys(t *testing.T, r *registry.Registry) (keys []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	receiver := &told{cancel: cancel}
	require.ErrorIs(t, r.Run(ctx, receiver), context.Canceled)
	for _, u := range receiver.updates {
		keys = append(keys, u.Key.String())
	}
	return keys
}

func TestWhatIsRegisteredOutlastsTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	r, problems, err := registry.Open(dir)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, r.Put(t.Context(), endpoint("a")))
	require.NoError(t, r.Put(t.Context(), endpoint("b")))
	require.NoError(t, r.Put(t.Context(), endpoint("b")), "once more")
	require.Error(t, r.Put(t.Context(), &policy.WorkloadEndpoint{Name: "nameless"}))
	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()))
	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()), "once more")
	require.Nil(t, r.Get(endpoint("a").Key()))
	require.NotNil(t, r.Get(endpoint("b").Key()))
	require.Equal(t, []string{"WorkloadEndpoint/shop/b"}, keys(t, r))

	for name, content := range map[string]string{
		"broken.json": "{", "shop%2Fx.json": `{"kind":"Tier","name":"x","order":1}`, ".half-1": "{", "README": "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	data, err := policy.Encode(endpoint("b"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop%2Fc.json"), data, 0o600))
	r, problems, err = registry.Open(dir)
	require.NoError(t, err)
	require.Len(t, problems, 3)
	require.ErrorContains(t, problems[1], "shop%2Fc.json: has the endpoint of shop%2Fb.json")
	require.ErrorContains(t, problems[2], "is a Tier")
	require.Equal(t, []string{"WorkloadEndpoint/shop/b"}, keys(t, r))
	require.NoFileExists(t, filepath.Join(dir, ".half-1"), "of a run that was killed")
	require.FileExists(t, filepath.Join(dir, "README"))
}

// Where the disk is full nothing new is registered, and what is registered stays as it was: in
// memory, on disk and after a restart.
func TestFullDisk(t *testing.T) {
	disk, err := smalldisk.New(16 << 10)
	require.NoError(t, err)
	defer func() { require.NoError(t, disk.Close()) }()
	dir := disk.Path()
	r, _, err := registry.Open(dir)
	require.NoError(t, err)
	require.NoError(t, r.Put(t.Context(), endpoint("a")))
	require.NoError(t, disk.Fill())

	err = r.Put(t.Context(), endpoint("b"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "registry: register WorkloadEndpoint/shop/b: ")
	require.ErrorContains(t, err, "no space left on device")
	moved := endpoint("a")
	moved.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	require.ErrorIs(t, r.Put(t.Context(), moved), syscall.ENOSPC)
	require.Nil(t, r.Get(endpoint("b").Key()))
	require.Equal(t, endpoint("a"), r.Get(endpoint("a").Key()))
	require.Equal(t, []string{"WorkloadEndpoint/shop/a"}, keys(t, r))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing is left of what failed, beside the file and what fills the disk")
	next, problems, err := registry.Open(dir)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, endpoint("a"), next.Get(endpoint("a").Key()))

	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()), "to forget needs no room")
	require.NoError(t, disk.Free())
	require.NoError(t, r.Put(t.Context(), endpoint("b")))
}

// What cannot be written does not count, and takes nothing with it, as where the directory has
// gone.
func TestWhatCannotBeWrittenDoesNotCount(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	r, _, err := registry.Open(dir)
	require.NoError(t, err)
	require.NoError(t, r.Put(t.Context(), endpoint("a")))
	require.NoError(t, os.RemoveAll(dir))
	require.ErrorContains(t, r.Put(t.Context(), endpoint("b")), "register WorkloadEndpoint/shop/b")
	require.Nil(t, r.Get(endpoint("b").Key()))
	require.Equal(t, []string{"WorkloadEndpoint/shop/a"}, keys(t, r))
	_, _, err = registry.Open("/dev/null/x")
	require.Error(t, err)
}

// An endpoint whose file cannot be removed stays registered: it would be back after a restart.
func TestWhatCannotBeRemovedStays(t *testing.T) {
	dir := t.TempDir()
	r, _, err := registry.Open(dir)
	require.NoError(t, err)
	require.NoError(t, r.Put(t.Context(), endpoint("a")))
	file := filepath.Join(dir, "shop%2Fa.json")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.MkdirAll(filepath.Join(file, "x"), 0o700))
	require.ErrorContains(t, r.Delete(t.Context(), endpoint("a").Key()), "delete WorkloadEndpoint/shop/a")
	require.NotNil(t, r.Get(endpoint("a").Key()))
	require.Equal(t, []string{"WorkloadEndpoint/shop/a"}, keys(t, r))
}
