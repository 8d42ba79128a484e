// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// A profile with a built-in name that cannot be decoded denies. If it were absent, the built-in
// profile would allow (S34).
func TestUndecodableBuiltinProfileDenies(t *testing.T) {
	for _, rule := range []string{
		`{"action":"Allow","source":{"nets":["10.0.0.0/33"]}}`, `{"action":"Allow","destination":{"ports":[0]}}`,
		`{"action":"Allow","unknown":1}`,
	} {
		r, err := policy.Decode([]byte(
			`{"kind":"Profile","name":"` + policy.DefaultAllowProfile + `","ingress":[` + rule + `]}`))
		require.NoError(t, err)
		admitted, err := policy.Update{Key: r.Key(), Resource: r}.Admit()
		var doubt *policy.DoubtError
		require.ErrorAs(t, err, &doubt)
		deny := []policy.Rule{{Action: policy.Deny}}
		require.Equal(t, &policy.Profile{Name: policy.DefaultAllowProfile, Ingress: deny, Egress: deny}, admitted)
		_, err = policy.Decode([]byte(`{"kind":"Profile","name":"p","ingress":[` + rule + `]}`))
		require.Error(t, err)
	}
}
