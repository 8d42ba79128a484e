// SPDX-License-Identifier: Apache-2.0

package hosts_test

import (
	_ "embed"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/examples/hosts"
	"github.com/wayleave/wayleave/policy"
)

//go:embed hosts.go
var source string

// The example has the documented size.
func TestLines(t *testing.T) {
	require.LessOrEqual(t, strings.Count(source, "\n"), 80)
}

// The kit checks the contract.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		dir := t.TempDir()
		path := filepath.Join(dir, "hosts")
		return conformance.Harness{
			Open: func(*testing.T) dataplane.Dataplane { return hosts.New(path) },
			Dump: func(*testing.T) string {
				text, _ := os.ReadFile(path) // without a file, the text is empty
				return string(text)
			},
			Damage: func(t *testing.T) { require.NoError(t, os.WriteFile(path, []byte("another's"), 0o600)) },
			Fault: func(t *testing.T) func() { // a directory is in the way
				require.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
				return func() { require.NoError(t, os.RemoveAll(path)) }
			},
			Foreign: func(t *testing.T) func() {
				other := filepath.Join(dir, "hosts.other")
				require.NoError(t, os.WriteFile(other, []byte("theirs"), 0o600))
				return func() {
					text, err := os.ReadFile(other)
					require.NoError(t, err)
					require.Equal(t, "theirs", string(text))
				}
			},
		}
	})
}

func TestContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	d := hosts.New(path)
	to := dptest.NewState()
	to.InSync = true
	key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	to.Endpoints[key] = &dataplane.Endpoint{Interface: "way0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), to)))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "# The workloads of this node. Changes are overwritten.\n10.0.0.1 web.shop\n", string(text))
	require.Error(t, hosts.New(t.TempDir()+"/none/hosts").Apply(t.Context(), dptest.Transition(dptest.NewState(), to)))
}
