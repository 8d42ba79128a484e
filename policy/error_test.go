// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// Names and fields of an invalid object cannot begin a line of a log or move the cursor of a
// terminal. They cannot change the direction of the text either.
func TestErrorsHavePrintableCharactersOnly(t *testing.T) {
	const forged = "web\ntime=now level=INFO msg=\"all is well\"\x1b[2J\u202e\xff"
	zone := netip.MustParseAddr("fe80::1%x\ny")
	endpoint := &policy.WorkloadEndpoint{
		Namespace: forged, Name: forged, Node: "n", Interface: "way0", Addresses: []netip.Addr{zone},
	}
	p := &policy.Policy{
		Name: forged, Selector: "has(" + forged, Ingress: []policy.Rule{{Action: policy.Action(forged)}},
	}
	_, decode := policy.Decode([]byte(`{"kind": "Policy", "name": "a\nb", "c\nd": 1}`))
	_, admit := policy.Update{Key: p.Key(), Resource: p}.Admit()
	doubt := &policy.DoubtError{Key: p.Key(), Problems: []policy.Problem{{Field: "ingress[0].\n", Msg: forged}}}
	for name, err := range map[string]error{
		"endpoint": endpoint.Validate(), "policy": p.Validate(), "decode": decode, "admit": admit, "doubt": doubt,
		"another key": policy.Update{Key: policy.Key{Kind: policy.KindTier, Name: forged}, Resource: p}.Validate(),
	} {
		require.Error(t, err, name)
		require.Negative(t, strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%s: %q",
			name, err)
	}
	var invalid *policy.ValidationError
	require.True(t, errors.As(endpoint.Validate(), &invalid))
	require.Equal(t, forged, invalid.Key.Name, "the field has the unchanged name")
}

func TestKeyString(t *testing.T) {
	for want, key := range map[string]policy.Key{
		"Policy/shop/web":       {Kind: policy.KindPolicy, Namespace: "shop", Name: "web"},
		"Tier/web":              {Kind: policy.KindTier, Name: "web"},
		`Tier/a "b" \c`:         {Kind: policy.KindTier, Name: `a "b" \c`},
		"Tier/häuser-\ufffd":    {Kind: policy.KindTier, Name: "häuser-\ufffd"},
		`"Tier/web\nweb"`:       {Kind: policy.KindTier, Name: "web\nweb"},
		`"Policy/a\u202eb/\"c"`: {Kind: policy.KindPolicy, Namespace: "a\u202eb", Name: `"c`},
		`"Tier/a\xff"`:          {Kind: policy.KindTier, Name: "a\xff"},
	} {
		require.Equal(t, want, key.String())
	}
}
