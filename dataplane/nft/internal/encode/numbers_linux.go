// SPDX-License-Identifier: Apache-2.0

package encode

// Numbers of the kernel that golang.org/x/sys/unix does not have.
const (
	// AttrTable is the number of the attribute with the name of the table. NFTA_TABLE_NAME,
	// NFTA_CHAIN_TABLE and so on all have this number.
	AttrTable = 1
	// AttrWithin is the number of the attribute with the name of an object's container. For a rule,
	// the container is its chain (NFTA_RULE_CHAIN). For elements, it is their set
	// (NFTA_SET_ELEM_LIST_SET).
	AttrWithin = 2

	AttrTableUserdata = 6  // NFTA_TABLE_USERDATA
	AttrTableOwner    = 7  // NFTA_TABLE_OWNER
	AttrChainFlags    = 10 // NFTA_CHAIN_FLAGS
	AttrFlowtableName = 2  // NFTA_FLOWTABLE_NAME

	attrFlowtable             = 1 // NFTA_FLOW_TABLE_NAME
	attrFlowtableHook         = 3 // NFTA_FLOWTABLE_HOOK
	attrFlowtableHookNum      = 1 // NFTA_FLOWTABLE_HOOK_NUM
	attrFlowtableHookPriority = 2 // NFTA_FLOWTABLE_HOOK_PRIORITY
	attrFlowtableHookDevices  = 3 // NFTA_FLOWTABLE_HOOK_DEVS
	attrFlowtableFlags        = 7 // NFTA_FLOWTABLE_FLAGS
	attrDeviceName            = 1 // NFTA_DEVICE_NAME
	// maxDevices limits the interfaces in one message: it is less than NFT_NETDEVICE_MAX.
	maxDevices = 255

	flowtableCounter = 0x2 // NFT_FLOWTABLE_COUNTER

	TableOwner   = 0x2 // NFT_TABLE_F_OWNER
	TablePersist = 0x4 // NFT_TABLE_F_PERSIST

	AttrSetExpr        = 17 // NFTA_SET_EXPR
	AttrSetExpressions = 18 // NFTA_SET_EXPRESSIONS
	AttrSetDescConcat  = 2  // NFTA_SET_DESC_CONCAT
	AttrSetFieldLen    = 1  // NFTA_SET_FIELD_LEN
	AttrSetElemKeyEnd  = 10 // NFTA_SET_ELEM_KEY_END

	nftaRulePositionID = 10
	nftaBitwiseOp      = 6
	nftaBitwiseData    = 7
	nftBitwiseRshift   = 2
	nftSetConcat       = 0x80

	// Types of entries in userdata of a table and of a set.
	udataTableComment     = 0
	udataSetDataByteOrder = 1
	udataSetComment       = 7
)
