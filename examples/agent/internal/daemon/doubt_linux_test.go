// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// S167: a policy with a rule in doubt is enforced. The log, the status, the metrics and
// explanations report the doubt until the rule is corrected.
func TestPolicyInDoubt(t *testing.T) {
	node, dir := shop(t)
	policyWith := func(ports string) string {
		return "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: doubtful}\n" +
			"spec: {order: 1, selector: app == 'cart', ingress: [{action: Deny, protocol: TCP, destination: {ports: " +
			ports + "}}, {action: Allow}]}\n"
	}
	write(t, dir, "doubt.yaml", policyWith("[80, 99999]"))
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)

	status := get[api.Status](t, r, "/v1/status")
	require.Len(t, status.Doubts, 1, r.log)
	require.Equal(t, policy.Key{Kind: policy.KindPolicy, Name: "doubtful"}, status.Doubts[0].Key)
	require.Contains(t, status.Doubts[0].Problem, "spec.ingress[0].destination.ports[1]: ")
	_, body := r.http(t, "/metrics")
	require.Contains(t, body, "wayleave_policies_in_doubt 1\n")
	require.Contains(t, r.log.String(),
		`msg="some rules are closed" object=Policy/doubtful at="doubt.yaml line 4" err=`)
	require.NotContains(t, r.log.String(), "rejected", "the policy is enforced, and has one message")
	require.Equal(t, 1, strings.Count(r.log.String(), "some rules are closed"))
	require.Zero(t, status.Rejected)
	list, err := api.Send[[]api.Explanation](t.Context(), r.Client, http.MethodPost, "/v1/explain",
		api.Question{From: "shop/web", To: "shop/cart", Port: "tcp/81"})
	require.NoError(t, err)
	require.Contains(t, list[0].Text, ": Deny\n")
	require.Contains(t, list[0].Text, "in tier default in doubt (spec.ingress[0].destination.ports[1]: ")
	require.Contains(t, list[0].Text, "doubt.yaml:4: ingress[0]) in doubt (")

	write(t, dir, "doubt.yaml", policyWith("[80]"))
	r.until(t, func(s pipeline.State) bool {
		return well(s) && strings.Contains(r.log.String(), `msg="no longer in doubt"`)
	})
	require.Empty(t, get[api.Status](t, r, "/v1/status").Doubts)
	_, body = r.http(t, "/metrics")
	require.Contains(t, body, "wayleave_policies_in_doubt 0\n")
	r.end(t)
}
