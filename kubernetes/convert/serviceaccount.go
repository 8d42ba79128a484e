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
	// Prefix of the name of the profile that stands for a service account.
	serviceAccountProfilePrefix = "ksa."
	// longestServiceAccount is the length, in bytes, up to which the name of a service account is
	// part of the profile's name as it is. With a namespace of 63 bytes this leaves the name short
	// enough.
	longestServiceAccount = 190
	// hashMark stands before the hash of a name that is not part of the profile's name as it is.
	hashMark = "~"
)

// ServiceAccount turns a service account into the profile that its pods list second, after that of
// their namespace: it hands down the account's labels, each with the prefix "pcsa.", and has no
// rules. The label projectcalico.org/name is always there, with the account's name. Every error is
// an *Error.
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

// serviceAccountProfile returns the name of the profile of a service account. Namespaces have no
// dots, so the names of two accounts never meet. Of a long name the end is hashed; the mark before
// the hash, which Kubernetes allows in no name, keeps the result apart from the names that stand as
// they are.
func serviceAccountProfile(namespace, name string) string {
	if len(name) > longestServiceAccount || strings.Contains(name, hashMark) {
		sum := sha256.Sum256([]byte(name))
		name = name[:min(len(name), longestServiceAccount-65)] + hashMark + hex.EncodeToString(sum[:])
	}
	return serviceAccountProfilePrefix + namespace + "." + name
}
