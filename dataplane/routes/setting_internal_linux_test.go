// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Settings are written in their own namespace, and only if they differ.
func TestSettings(t *testing.T) {
	ns, other := nstest.New(t), nstest.New(t)
	const path = "net/ipv4/conf/lo/rp_filter"
	require.NoError(t, ns.SetSysctl(path, "0"))
	require.NoError(t, other.SetSysctl(path, "0"))
	want := Setting{Path: path, Value: "2"}
	none := Setting{Path: "net/ipv4/conf/none/rp_filter", Value: "2"}
	nonsense := Setting{Path: "net/ipv4/conf/lo/arp_ignore", Value: "nonsense"}

	differ, former, failed := differingSettings(ns.FD(), []Setting{want, none, nonsense})
	require.Equal(t, []Setting{want, nonsense}, differ)
	require.Equal(t, map[Setting]string{want: "0", nonsense: "0"}, former)
	require.Len(t, failed, 1)
	require.ErrorIs(t, failed[none], fs.ErrNotExist)
	failed = writeSettings(ns.FD(), append(differ, none))
	require.Len(t, failed, 2)
	require.ErrorIs(t, failed[nonsense], unix.EINVAL)
	require.ErrorIs(t, failed[none], fs.ErrNotExist, "nothing is created")

	differ, _, failed = differingSettings(ns.FD(), []Setting{want})
	require.Empty(t, differ)
	require.Empty(t, failed)
	value, err := ns.Sysctl(path)
	require.NoError(t, err)
	require.Equal(t, "2", value)
	value, err = other.Sysctl(path)
	require.NoError(t, err)
	require.Equal(t, "0", value)

	_, _, failed = differingSettings(9999, []Setting{want, none})
	require.Len(t, failed, 2, "no such namespace")
}

// Saved values of sysctls of removed interfaces are dropped, from memory and from the file.
func TestSavedSysctlsAreBounded(t *testing.T) {
	ns := nstest.New(t)
	file := filepath.Join(t.TempDir(), "sysctls")
	f := savedSysctls{file: file, namespace: ns.FD()}
	kept := savedSysctl{Path: "net/ipv4/conf/lo/rp_filter", Before: "0", Set: "1"}
	require.NoError(t, f.record([]savedSysctl{kept}))
	for i := range 3 * minPrune {
		require.NoError(t,
			f.record([]savedSysctl{{Path: fmt.Sprintf("net/ipv4/conf/gone%d/rp_filter", i), Before: "0", Set: "1"}}))
		require.LessOrEqual(t, len(f.values), minPrune)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(data, []byte("\n")), minPrune)

	// A truncated line is ignored, and the next one is read.
	require.NoError(t, os.WriteFile(file, append(data, `{"path":"net/ipv4/co`...), 0o600))
	again := savedSysctls{file: file, namespace: ns.FD()}
	require.NoError(t, again.load())
	require.Equal(t, f.values, again.values)
	require.Equal(t, kept, again.values[kept.Path])
	next := savedSysctl{Path: "net/ipv4/conf/lo/arp_filter", Before: "0", Set: "1"}
	require.NoError(t, again.record([]savedSysctl{next}))
	again = savedSysctls{file: file, namespace: ns.FD()}
	require.NoError(t, again.load())
	require.Equal(t, next, again.values[next.Path])
	require.Equal(t, kept, again.values[kept.Path])
}

// If an interface is added repeatedly with the same name, as for pods, neither the file nor the
// memory grows.
func TestSavedSysctlsOfAReturningInterfaceAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sysctls")
	value := savedSysctl{Path: "net/ipv4/conf/lo/rp_filter", Before: "0", Set: "1"}
	for range 3 { // processes
		f := savedSysctls{file: file, namespace: nstest.New(t).FD()}
		for range minPrune {
			require.NoError(t, f.record([]savedSysctl{value}))
		}
		require.Equal(t, map[string]savedSysctl{value.Path: value}, f.values)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(data, []byte("\n")), minPrune)
}

func TestSettingPaths(t *testing.T) {
	for path, ok := range map[string]bool{
		"net/ipv4/conf/cali.1/rp_filter": true, "net/ipv4/conf/a..b/rp_filter": true, "net/ipv4/ip_forward": true,
		"": false, "net": false, "kernel/panic": false, "net/../kernel/panic": false, "/net/ipv4/ip_forward": false,
		"net//ipv4": false, "../net/x": false,
	} {
		err := Setting{Path: path, Value: "1"}.validate()
		if ok {
			require.NoError(t, err, path)
		} else {
			require.ErrorIs(t, err, ErrObject, path)
		}
	}
}
