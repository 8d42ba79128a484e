// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

func TestFlowsText(t *testing.T) {
	rule := 1
	text := flowsText(0, api.Flows{
		Flows: []api.Flow{
			{
				Source: "shop/cart", Destination: "shop/web", Protocol: "TCP", Port: 80, Decision: "allow",
				Policy: &policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "web"}, Direction: "ingress",
				Rule: &rule, Connections: 2, Packets: 10, Bytes: 999, ReplyPackets: 20, ReplyBytes: 1_000_000,
			},
			{
				Source: "192.0.2.1", Destination: "shop/web", Protocol: "ICMP", Decision: "deny", Reason: "unknown",
				Packets: 3, Bytes: 1000,
			},
		},
		Connections: 1, MissedEnds: 4,
	}, 7)
	require.Equal(t, `SOURCE     DESTINATION  PORT    VERDICT  CONNECTIONS  PACKETS  BYTES         BY
shop/cart  shop/web     TCP 80  allow    2            10/20    999 B/1.0 MB  Policy/shop/web ingress rule 1
192.0.2.1  shop/web     ICMP    deny     0            3/0      1.0 kB/0 B    unknown
2 of 7 flows; 1 connections go on
4 times, ends of connections are missing: there were too many at once
`, text)
}

func TestRepeat(t *testing.T) {
	calls := 0
	count := func() error {
		calls++
		return nil
	}
	require.NoError(t, repeat(t.Context(), 0, count))
	require.Equal(t, 1, calls)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, repeat(ctx, time.Nanosecond, func() error {
		if calls++; calls == 4 {
			cancel()
		}
		return nil
	}), "an interrupt is not an error")
	require.Equal(t, 4, calls)
	failed := errors.New("failed")
	require.ErrorIs(t, repeat(t.Context(), time.Nanosecond, func() error { return failed }), failed)
}
