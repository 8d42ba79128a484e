// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// Decode never panics. Its result is canonical, and if it is valid, it decodes from its encoding to
// an equal one.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(fullPolicy))
	for _, r := range append(good(), full(f)...) {
		f.Add(encode(f, r))
	}
	f.Add([]byte(`{"kind":"StagedPolicy","name":"p","order":-0,"ingress":[{"action":"Pass","icmp":{},` +
		`"source":{"serviceAccounts":{}}}]}`))
	f.Add([]byte(`{"kind":"NetworkSet","name":"\u0000","labels":{"":"\ud800"},"nets":["::ffff:1.2.3.4/95"]}`))
	f.Add([]byte(`{"kind":"Policy","name":"p","applyOnForward":true,"doNotTrack":true,` +
		`"egress":[{"action":"Allow","destination":{"services":{"name":"web"}}}]}`))
	f.Add([]byte(`{"kind":"Node","name":"n","addresses":["::ffff:10.0.0.1/95","10.0.0.1/0","10.0.0.1"],` +
		`"ipv4VXLANTunnelAddr":"::ffff:10.0.0.1"}`))
	f.Add([]byte(`{"kind":"Block","cidr":"10.0.0.1/26","borrowed":[{"address":"10.0.0.1","node":""},{}]}`))
	f.Add([]byte(`{"kind":"IPPool","cidr":"0.0.0.0/0","vxlanMode":"","ipipMode":"Always"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := policy.Decode(data)
		if err != nil {
			require.Nil(t, r)
			require.NotEmpty(t, err.Error())
			return
		}
		require.True(t, policy.Equal(r, policy.Canonical(r)))
		check(t, r)
	})
}

// Validate does not panic for values made by a program, canonical or not. Canonical makes no valid
// resource invalid.
func FuzzCanonical(f *testing.F) {
	for i, kind := range policy.Kinds() {
		for _, r := range append(good(), full(f)...) {
			if r.Key().Kind == kind {
				data, err := json.Marshal(r)
				require.NoError(f, err)
				f.Add(byte(i), data)
			}
		}
		f.Add(byte(i),
			[]byte(`{"name":"x","node":"n","cidr":"10.1.2.3/8","mac":"66:3E:CA:A4:DB:65","types":["ingress"]}`))
		f.Add(byte(i), []byte(`{"addresses":["::ffff:10.0.0.1","10.0.0.1"],"expectedIPs":["fe80::1%eth0",""],`+
			`"borrowed":[{}],"ipNATs":[{}],"ports":[{}]}`))
		f.Add(byte(i), []byte(
			`{"name":"n","addresses":["::ffff:10.0.0.1/120","10.0.0.1/8",""],"ingress":[{"source":{"services":{}}}]}`,
		))
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		kinds := policy.Kinds()
		r := empty(t, kinds[int(kind)%len(kinds)])
		if json.Unmarshal(data, r) != nil { // less strict than Decode
			return
		}
		valid := r.Validate() == nil
		c := policy.Canonical(r)
		require.True(t, policy.Equal(c, policy.Canonical(c)), "a fixed point")
		if valid {
			require.NoError(t, c.Validate())
		}
		check(t, r)
		check(t, c)
		if c.Validate() == nil {
			back, err := policy.Decode(encode(t, c))
			require.NoError(t, err)
			require.True(t, policy.Equal(c, back))
		}
	})
}

// check tests properties that every resource has.
func check(t *testing.T, r policy.Resource) {
	t.Helper()
	require.True(t, policy.Equal(r, policy.Clone(r)))
	u := policy.Update{Key: r.Key(), Resource: r}
	if err := r.Validate(); err != nil {
		require.NotEmpty(t, err.Error())
		require.Error(t, u.Validate())
		return
	}
	require.NoError(t, u.Validate())
	data := encode(t, r)
	back, err := policy.Decode(data)
	require.NoError(t, err, "%s", data)
	require.True(t, policy.Equal(policy.Canonical(r), back), "%s", data)
	require.NoError(t, back.Validate())
}
