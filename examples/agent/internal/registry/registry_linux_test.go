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

// collector collects the objects of a source until it is in sync.
type collector struct {
	updates []policy.Update
	cancel  context.CancelFunc
}

func (r *collector) Update(_ context.Context, updates []policy.Update) error {
	r.updates = append(r.updates, updates...)
	return nil
}

func (r *collector) InSync(context.Context) error {
	r.cancel()
	return nil
}

// Owner returns the endpoint with an address, as long as the endpoint is registered.
func TestOwnerOfAddress(t *testing.T) {
	r, _, err := registry.Open(t.TempDir())
	require.NoError(t, err)
	addr := netip.MustParseAddr("10.0.0.1")
	require.Nil(t, r.Owner(addr))
	require.NoError(t, r.Put(t.Context(), endpoint("a")))
	require.Equal(t, "a", r.Owner(addr).Name)
	require.Nil(t, r.Owner(addr.Next()))
	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()))
	require.Nil(t, r.Owner(addr))
}

func keys(t *testing.T, r *registry.Registry) (keys []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	receiver := &collector{cancel: cancel}
	require.ErrorIs(t, r.Run(ctx, receiver), context.Canceled)
	for _, u := range receiver.updates {
		keys = append(keys, u.Key.String())
	}
	return keys
}

func TestRegistrationSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	r, problems, err := registry.Open(dir)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, r.Put(t.Context(), endpoint("a")))
	require.NoError(t, r.Put(t.Context(), endpoint("b")))
	require.NoError(t, r.Put(t.Context(), endpoint("b")), "repeated")
	require.Error(t, r.Put(t.Context(), &policy.WorkloadEndpoint{Name: "nameless"}))
	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()))
	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()), "repeated")
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
	require.NoFileExists(t, filepath.Join(dir, ".half-1"), "a file of a killed run")
	require.FileExists(t, filepath.Join(dir, "README"))
}

// On a full disk, no endpoint can be registered or changed. Registered endpoints stay unchanged in
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
	require.Len(t, left, 2, "only the registered endpoint and the file that fills the disk")
	next, problems, err := registry.Open(dir)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, endpoint("a"), next.Get(endpoint("a").Key()))

	require.NoError(t, r.Delete(t.Context(), endpoint("a").Key()), "a removal needs no space")
	require.NoError(t, disk.Free())
	require.NoError(t, r.Put(t.Context(), endpoint("b")))
}

// If the file of an endpoint cannot be written, here because the directory was removed, the
// endpoint is not registered. Other endpoints stay.
func TestFailedWriteRegistersNothing(t *testing.T) {
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

// An endpoint whose file cannot be removed stays registered: a restart would register it again.
func TestFailedRemovalKeepsRegistration(t *testing.T) {
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
