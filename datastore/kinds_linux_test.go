// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// samples are objects of every kind, as files hold them.
func samples() map[policy.Kind]string {
	return map[policy.Kind]string{
		policy.KindPolicy: `"name":"p","applyOnForward":true,"ingress":[{"action":"Allow","dscp":[46,0],` +
			`"notDSCP":[10],"source":{"services":{"name":"web","namespace":"shop"}}}]`,
		policy.KindStagedPolicy: `"name":"p","applyOnForward":true,"preDNAT":true`,
		policy.KindTier:         `"name":"t","defaultAction":"Pass"`,
		policy.KindProfile:      `"name":"p","labelsToApply":{"a":"b"}`,
		policy.KindNetworkSet:   `"name":"s","nets":["10.0.0.1"]`,
		policy.KindWorkloadEndpoint: `"name":"w","node":"n1","interface":"cali0","addresses":["10.0.0.1"],` +
			`"ipNATs":[{"internalIP":"10.0.0.1","externalIP":"192.0.2.1"}]`,
		policy.KindHostEndpoint: `"name":"h","node":"n1","interfaceName":"eth0"`,
		policy.KindIPPool:       `"name":"p","cidr":"10.0.0.0/16","vxlanMode":"Always"`,
		policy.KindBlock:        `"cidr":"10.0.1.0/26","node":"n1","borrowed":[{"address":"10.0.1.5","node":"n2"}]`,
		policy.KindNode:         `"name":"n1","addresses":["192.168.0.5/24"]`,
		policy.KindServiceBackends: `"namespace":"shop","name":"web-1","service":"web","addresses":["10.0.1.5"],` +
			`"ports":[{"protocol":"TCP","port":80}]`,
	}
}

// world collects resources until it is in sync.
type world struct {
	resources map[policy.Key]policy.Resource
	inSync    chan struct{}
}

func (w *world) Update(_ context.Context, updates []policy.Update) error {
	for _, u := range updates {
		w.resources[u.Key] = u.Resource
	}
	return nil
}

func (w *world) InSync(context.Context) error {
	close(w.inSync)
	return nil
}

// Objects of every kind pass a Dir and a Memory unchanged.
func TestEveryKind(t *testing.T) {
	f := newFolder(t)
	want := map[policy.Key]policy.Resource{}
	var memory datastore.Memory
	for _, kind := range policy.Kinds() {
		text, ok := samples()[kind]
		require.True(t, ok, "a sample of %s", kind)
		text = fmt.Sprintf(`{"kind":%q,%s}`, kind, text)
		require.NoError(t, os.WriteFile(f.file(string(kind)+".json"), []byte(text), 0o644))
		r, err := policy.Decode([]byte(text))
		require.NoError(t, err)
		require.NoError(t, r.Validate())
		want[r.Key()] = r
		update(t, &memory, policy.Update{Key: r.Key(), Resource: r})
	}
	require.Len(t, want, len(policy.Kinds()))

	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	for _, source := range []datastore.Source{dir, &memory} {
		got := &world{resources: map[policy.Key]policy.Resource{}, inSync: make(chan struct{})}
		stop := start(t, source, got)
		<-got.inSync
		require.ErrorIs(t, stop(), context.Canceled)
		require.Equal(t, want, got.resources)
	}
	require.Empty(t, f.rejected)
}
