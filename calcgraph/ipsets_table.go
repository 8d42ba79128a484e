// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"hash/maphash"

	"github.com/wayleave/wayleave/internal/idtable"
	"github.com/wayleave/wayleave/policy"
)

// objectKey is a policy.Key in less memory.
type objectKey struct {
	name      string
	namespace uint32 // number of the namespace
	kind      byte
}

func newObjectKey(key policy.Key, namespace uint32) objectKey {
	k := objectKey{name: key.Name, namespace: namespace}
	switch key.Kind {
	case policy.KindWorkloadEndpoint:
		k.kind = 'w'
	case policy.KindHostEndpoint:
		k.kind = 'h'
	case policy.KindNetworkSet:
		k.kind = 'n'
	case policy.KindServiceBackends:
		k.kind = 's'
	}
	return k
}

// newObjectTable returns an empty table of objects by key. Each object has a number.
func newObjectTable() idtable.Map[objectKey, object] {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xff51afd7ed558ccd // multipliers that distribute near numbers
	seed := maphash.MakeSeed()
	return idtable.NewMap[objectKey, object](func(k objectKey) uint64 {
		return (maphash.String(seed, k.name) ^ (uint64(k.namespace)<<8|uint64(k.kind))*odd1) * odd2
	})
}
