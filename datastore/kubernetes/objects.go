// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// record has the kept data of one object. There is none for a pod from an informer of the caller.
type record struct {
	// list is the number of the last list that had the object, or that precedes its last event.
	list uint32
	// hash is the hash of the endpoint that was last pushed for a pod; 0 if it has none.
	hash uint64
	// resources are those that were last pushed. It is not used for pods.
	resources []policy.Resource
}

// objects are the Source's objects of one kind. The lock of the Source guards the fields.
type objects struct {
	source  *Source
	kind    kind
	records map[types.NamespacedName]record
	// list is the number of the current list.
	list uint32
	// buffered has the changes during a list, until it is complete. It is nil during the first list
	// and between lists.
	buffered map[policy.Key]policy.Resource
	// synced means that a list was complete.
	synced bool
	// converted has the version of each object for which Hooks.Converted was called. It is nil
	// unless the kind has conditions.
	converted map[types.NamespacedName]objectVersion
	status    KindStatus
	// shared counts the objects of an informer of the caller.
	shared int
}

// objectVersion identifies a version of an object. If the object is deleted and created again under
// its name, it has another UID and its own status.
type objectVersion struct {
	uid        types.UID
	generation int64
}

// count returns the number of objects.
func (o *objects) count() int {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	return len(o.records)
}

// begin begins a list of all objects. Changes that an incomplete list has buffered stay buffered.
func (o *objects) begin() {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	o.list++
	if o.synced && o.buffered == nil {
		o.buffered = map[policy.Key]policy.Resource{}
	}
}

// end ends a list, and removes the objects that were not in it.
func (o *objects) end() {
	o.source.mu.Lock()
	var gone []types.NamespacedName
	for id, r := range o.records {
		if r.list != o.list {
			gone = append(gone, id)
		}
	}
	o.source.mu.Unlock()
	slices.SortFunc(gone, compareNames)
	for _, id := range gone {
		o.remove(id)
	}
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	o.synced = true
	o.release()
}

// release pushes the buffered changes.
func (o *objects) release() {
	updates := make([]policy.Update, 0, len(o.buffered))
	for key, r := range o.buffered {
		updates = append(updates, policy.Update{Key: key, Resource: r})
	}
	o.buffered = nil
	o.source.queue.push(updates...)
}

// set adds or replaces an object.
func (o *objects) set(object metav1.Object) {
	id := nameOf(object)
	if pod, ok := object.(*corev1.Pod); ok {
		o.setPod(id, pod)
		return
	}
	resources, problems := o.convert(object)
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	old, known := o.records[id]
	changed := known && !slices.EqualFunc(old.resources, resources, policy.Equal)
	now := objectVersion{object.GetUID(), object.GetGeneration()}
	if last, seen := o.converted[id]; o.converted != nil && (!seen || last != now) {
		o.converted[id], changed = now, true
	}
	o.source.reportLocked(o.identity(id, object.GetUID()), object.GetGeneration(), problems, changed)
	o.replaceLocked(id, resources)
	o.records[id] = record{list: o.list, resources: resources}
}

// setPod adds or replaces a pod. Its endpoint arrives in setEndpoint.
func (o *objects) setPod(id types.NamespacedName, pod *corev1.Pod) {
	if !o.isShared() {
		o.source.mu.Lock()
		r := o.records[id]
		r.list = o.list
		o.records[id] = r
		o.source.mu.Unlock()
	}
	o.source.setPod(pod)
}

// setEndpoint pushes the endpoint of a pod if it changed. An update without a resource means that
// the pod has no endpoint.
func (o *objects) setEndpoint(u policy.Update) {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	id := types.NamespacedName{Namespace: u.Key.Namespace, Name: u.Key.Name}
	if r, ok := o.records[id]; ok {
		hash := o.source.hash(u.Resource)
		if hash == r.hash && (hash != 0 || policy.Equal(u.Resource, nil)) {
			return
		}
		r.hash = hash
		o.records[id] = r
	}
	if o.source.attached[u.Key] { // CNI ADD waits for it
		delete(o.buffered, u.Key)
		o.source.queue.push(u)
		return
	}
	o.pushLocked(u)
}

// isShared reports whether the objects come from an informer of the caller.
func (o *objects) isShared() bool { return o.source.cfg.Informers != nil && o.kind.informer != nil }

// remove removes an object.
func (o *objects) remove(id types.NamespacedName) {
	if o.kind.object == "Pod" {
		o.source.deletePod(id)
	}
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	object := o.identity(id, "")
	if _, faulty := o.source.faulty[object]; faulty || o.kind.object != "Pod" {
		delete(o.source.faulty, object)
		o.source.cfg.Hooks.Deleted(object)
	}
	o.replaceLocked(id, nil)
	delete(o.records, id)
	delete(o.converted, id)
}

// replaceLocked pushes the difference between an object's last resources and the new ones.
func (o *objects) replaceLocked(id types.NamespacedName, resources []policy.Resource) {
	old := o.records[id].resources
	for _, r := range old {
		key := r.Key()
		if !slices.ContainsFunc(resources, func(r policy.Resource) bool { return r.Key() == key }) {
			o.pushLocked(policy.Update{Key: key, Resource: o.source.claim(key, id, nil)})
		}
	}
	for _, r := range resources {
		if !slices.ContainsFunc(old, func(o policy.Resource) bool { return policy.Equal(o, r) }) {
			o.pushLocked(policy.Update{Key: r.Key(), Resource: o.source.claim(r.Key(), id, r)})
		}
	}
}

// pushLocked pushes an update, or buffers it until the list is complete.
func (o *objects) pushLocked(u policy.Update) {
	if o.buffered != nil {
		o.buffered[u.Key] = u.Resource
		return
	}
	o.source.queue.push(u)
}

// flushLocked pushes the update of a key if it is buffered.
func (o *objects) flushLocked(key policy.Key) {
	if r, ok := o.buffered[key]; ok {
		delete(o.buffered, key)
		o.source.queue.push(policy.Update{Key: key, Resource: r})
	}
}

// convert returns the resources of an object and its problems.
func (o *objects) convert(object metav1.Object) ([]policy.Resource, []error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return o.source.cfg.Converter.Convert(object)
	}
	u.SetManagedFields(nil)
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, []error{&convert.Error{Object: o.identity(nameOf(u), u.GetUID()), Err: err, Absent: true}}
	}
	resources, problems := manifest.Reader{Converter: o.source.cfg.Converter}.Decode("", data)
	for i, err := range problems {
		var wrong *manifest.Error
		if errors.As(err, &wrong) {
			problems[i] = &convert.Error{
				Object: o.identity(nameOf(u), u.GetUID()), Field: wrong.Field, Err: wrong.Err,
				Absent: len(resources) == 0,
			}
		}
	}
	return resources, problems
}

// identity returns the identity of an object of this kind.
func (o *objects) identity(id types.NamespacedName, uid types.UID) convert.Object {
	return convert.Object{
		APIVersion: o.kind.resource.GroupVersion().String(), Kind: o.kind.object, Namespace: id.Namespace,
		Name: id.Name, UID: uid,
	}
}

// hash returns the hash of an endpoint; 0 if it is nil or cannot be encoded.
func (s *Source) hash(r policy.Resource) uint64 {
	if policy.Equal(r, nil) {
		return 0
	}
	data, err := json.Marshal(r)
	if err != nil {
		return 0
	}
	return max(maphash.Bytes(s.seed, data), 1)
}

// claim records the resource that an object has for a key; nil means that it has none any more. It
// returns the resource to use. If two Nodes have one pod CIDR, that is the resource of the Node
// whose name sorts first.
func (s *Source) claim(key policy.Key, id types.NamespacedName, r policy.Resource) policy.Resource {
	if key.Kind != policy.KindBlock {
		return r
	}
	claims := s.blocks[key]
	at, found := slices.BinarySearchFunc(claims, id, func(c claim, id types.NamespacedName) int {
		return compareNames(c.id, id)
	})
	if found {
		claims = slices.Delete(claims, at, at+1)
	}
	if r != nil {
		claims = slices.Insert(claims, at, claim{id, r})
	}
	if len(claims) == 0 {
		delete(s.blocks, key)
		return nil
	}
	if len(claims) > 1 {
		s.cfg.Logger.Warn("nodes share a pod CIDR: using the first by name", "block", key.Name,
			"first", claims[0].id.Name, "last", claims[len(claims)-1].id.Name)
	}
	s.blocks[key] = claims
	return claims[0].resource
}

// claim is the resource of one object, for a key that several objects can have.
type claim struct {
	id       types.NamespacedName
	resource policy.Resource
}
