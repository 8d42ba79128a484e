// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

// Packets get the values of matches and those after them, in the field of the match.
func TestHeadersOf(t *testing.T) {
	dscp := func(n policy.DSCP) policy.Header { return policy.Header{DSCP: n} }
	require.Equal(t, []policy.Header{dscp(46), dscp(47), dscp(63), dscp(0)},
		headersOf(&policy.HeaderMatch{DSCP: []policy.DSCP{46}, NotDSCP: []policy.DSCP{63}}))

	m := policy.HeaderMatch{}
	fieldwalk.Fill(reflect.ValueOf(&m).Elem())
	found := reflect.New(reflect.TypeFor[policy.Header]()).Elem()
	for _, h := range headersOf(&m) {
		for i, v := 0, reflect.ValueOf(h); i < v.NumField(); i++ {
			if !v.Field(i).IsZero() {
				found.Field(i).Set(v.Field(i))
			}
		}
	}
	for i := range found.NumField() {
		require.False(t, found.Field(i).IsZero(), "no match gives packets the field %s", found.Type().Field(i).Name)
	}
}

func TestSetHeader(t *testing.T) {
	h := policy.Header{}
	require.True(t, setHeader(&h, "dscp", 10))
	require.Equal(t, policy.Header{DSCP: 10}, h)
	require.False(t, setHeader(&h, "dscp", 64))
	require.False(t, setHeader(&h, "dscp", 256+10))
	require.False(t, setHeader(&h, "port", 1))
}
