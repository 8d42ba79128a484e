// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/memory"
)

const mib = 1 << 20

// Read returns the smallest limit of the cgroups, in both versions and at any mount point. A limit
// of the environment takes precedence.
func TestRead(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	const none, v1, v2 = "9223372036854771712\n", "4:memory:/a/b\n3:cpu:/a/b\n1:name=systemd:/x\n0::/u\n", "0::/a/b\n"
	for name, row := range map[string]struct {
		groups string
		files  map[string]string
		want   string
		limit  int64
	}{
		"version 2": {
			v2,
			map[string]string{"a/b/memory.max": "536870912\n"},
			"512 MiB (/sys/fs/cgroup/a/b/memory.max)", 512 * mib,
		},
		"above": {
			v2,
			map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "104857600\n"},
			"100 MiB (/sys/fs/cgroup/a/memory.max)", 100 * mib,
		},
		"the least": {
			v2,
			map[string]string{"a/b/memory.max": "209715200\n", "a/memory.max": "104857600\n"},
			"100 MiB (/sys/fs/cgroup/a/memory.max)", 100 * mib,
		},
		"a container": {
			v2, map[string]string{"memory.max": "104857600\n"}, "100 MiB (/sys/fs/cgroup/memory.max)", 100 * mib,
		},
		"version 1": {
			v1,
			map[string]string{"memory/memory.limit_in_bytes": none, "memory/a/b/memory.limit_in_bytes": "67108864\n"},
			"64 MiB (/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes)", 64 * mib,
		},
		"no limit": {v1, map[string]string{"memory/a/b/memory.limit_in_bytes": none}, "none", 0},
		"nothing":  {"", nil, "none", 0},
		"nonsense": {"x\n0::\n", map[string]string{"memory.max": "-1\n"}, "none", 0},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(row.groups)}}
		for file, data := range row.files {
			root["sys/fs/cgroup/"+file] = &fstest.MapFile{Data: []byte(data)}
		}
		limit := memory.Read(root)
		require.Equal(t, row.want, limit.String(), name)
		require.Equal(t, row.limit, limit.Cgroup, name)
		require.Zero(t, limit.Env, name)
	}
	memory.Set(memory.Limit{})
	memory.Set(memory.Limit{Env: 900 * mib, Cgroup: 1000 * mib})
	require.EqualValues(t, math.MaxInt64, debug.SetMemoryLimit(-1), "the limit of the environment stays")
	memory.Set(memory.Limit{Cgroup: 1000 * mib})
	require.EqualValues(t, 900*mib, debug.SetMemoryLimit(-1))
	limit := memory.Read(fstest.MapFS{})
	require.Equal(t, memory.Limit{Env: 900 * mib}, limit)
	require.Equal(t, "900 MiB (GOMEMLIMIT)", limit.String())
}

// Watch fails before the limit is reached, and never without a limit.
func TestWatch(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, memory.Limit{}.Watch(ctx, time.Millisecond), context.DeadlineExceeded)
	require.ErrorIs(t, memory.Limit{Env: 1 << 40, Cgroup: 1 << 40}.Watch(ctx, time.Millisecond),
		context.DeadlineExceeded)

	for limit, atLeast := range map[memory.Limit]int64{
		{Env: 200 * mib}: 200 * mib, {Cgroup: 300 * mib, File: "/f"}: 300 * mib / 10 * 7,
		{Env: 1 << 40, Cgroup: 300 * mib}: 300 * mib / 10 * 7,
	} {
		failed := make(chan error, 1)
		go func() { failed <- limit.Watch(t.Context(), 0) }()
		err := allocate(t, failed)
		var exceeded *memory.ExceededError
		require.ErrorAs(t, err, &exceeded)
		require.Equal(t, limit, exceeded.Limit)
		require.Greater(t, exceeded.Used, atLeast)
		require.ErrorContains(t, err, "MiB in use, limit "+limit.String())
	}
}

// allocate allocates memory until Watch returns an error, and returns that error.
func allocate(t *testing.T, failed <-chan error) error {
	t.Helper()
	var kept []string
	for range 4096 {
		select {
		case err := <-failed:
			return err
		default:
			kept = append(kept, strings.Repeat("x", mib))
		}
	}
	t.Fatalf("Watch returns no error at %d MiB", len(kept))
	return nil
}
