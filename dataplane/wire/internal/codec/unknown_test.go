// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// A field of a newer version may be what denies a packet: without it, a rule would match more.
func TestUnknownFieldsAreRefused(t *testing.T) {
	tier := &wirepb.TierPolicies{Tier: "t", DefaultAction: wirepb.Action_ACTION_DENY}
	rule := &wirepb.Rule{
		Action: wirepb.Action_ACTION_ALLOW, Icmp: &wirepb.ICMP{Type: 8},
		Source: &wirepb.Match{Ports: []*wirepb.PortRange{{First: 1, Last: 2}}},
	}
	update := &wirepb.PolicyUpdate{Key: &wirepb.Key{Kind: "Policy", Name: "p"}, Ingress: []*wirepb.Rule{rule}}
	policies := &wirepb.Event{Event: &wirepb.Event_PolicyUpdate{PolicyUpdate: update}}
	endpoint := &wirepb.Event{Event: &wirepb.Event_EndpointUpdate{EndpointUpdate: &wirepb.EndpointUpdate{
		Key: &wirepb.Key{Kind: "WorkloadEndpoint", Name: "e"}, Egress: []*wirepb.TierPolicies{tier},
	}}}
	for _, c := range []struct {
		event *wirepb.Event
		part  proto.Message
		want  string
	}{
		{policies, update, "codec: policy Policy/p: unknown field"},
		{policies, rule, "codec: policy Policy/p: ingress[0]: unknown field"},
		{policies, rule.GetIcmp(), "codec: policy Policy/p: ingress[0].icmp: unknown field"},
		{policies, rule.GetSource(), "codec: policy Policy/p: ingress[0].source: unknown field"},
		{policies, rule.GetSource().GetPorts()[0], "codec: policy Policy/p: ingress[0].source.ports[0]: unknown field"},
		{endpoint, tier, "codec: endpoint WorkloadEndpoint/e: egress[0]: unknown field"},
	} {
		_, err := codec.Decode(c.event)
		require.NoError(t, err)
		part := c.part.ProtoReflect()
		part.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
		_, err = codec.Decode(c.event)
		require.EqualError(t, err, c.want)
		part.SetUnknown(nil)
	}
}
