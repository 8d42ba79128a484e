// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
)

const (
	// serviceAccountProfilePrefix is the prefix of the name of a service account's profile.
	serviceAccountProfilePrefix = "ksa."
	// longestServiceAccount is the maximum length in bytes of a service account's name that is used
	// unchanged in the name of the profile. With a namespace of 63 bytes, the name of the profile
	// is then short enough.
	longestServiceAccount = 190
	// hashMark is the character before the hash in the name of a profile.
	hashMark = "~"
)

// ServiceAccount converts a service account to a profile. The endpoint of a pod with this account
// has this profile, after the profile of its namespace. The profile has no rules. It has the labels
// of the account, each with the prefix "pcsa.". It always has the label projectcalico.org/name with
// the same prefix. The value of this label is the name of the account. Every error is an *Error.
func (c Converter) ServiceAccount(account *corev1.ServiceAccount) (*policy.Profile, []error) {
	p, namespace := begin(coreVersion, "ServiceAccount", account, true)
	checkLabels(p, account.Labels)
	labels := make(map[string]string, len(account.Labels)+1)
	for k, v := range fewLabels(p, account.Labels) {
		labels[policy.ServiceAccountLabelPrefix+k] = v
	}
	labels[policy.ServiceAccountLabelPrefix+labelName] = account.Name
	profile := &policy.Profile{Name: serviceAccountProfile(namespace, account.Name), LabelsToApply: labels}
	return finish(profile, p, renamed("name", "metadata.name", "labelsToApply", "metadata.labels"))
}

// serviceAccountProfile returns the name of the profile of a service account. Names of namespaces
// have no dots, so two accounts never have the same profile. If the name of the account is long,
// hashMark and a hash replace its end. No name of Kubernetes contains hashMark, so the result
// differs from all names that are used unchanged.
func serviceAccountProfile(namespace, name string) string {
	if len(name) > longestServiceAccount || strings.Contains(name, hashMark) {
		sum := sha256.Sum256([]byte(name))
		name = name[:min(len(name), longestServiceAccount-65)] + hashMark + hex.EncodeToString(sum[:])
	}
	return serviceAccountProfilePrefix + namespace + "." + name
}
