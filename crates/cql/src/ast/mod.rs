//! The syntax of a CQL statement, as written: no schema has been looked at and no name resolved.
//!
//! Names are owned strings already folded as Cassandra folds them: unquoted identifiers are lower case, quoted
//! ones are kept. Nodes which appear in error messages or in the names of result columns print themselves
//! (`Display`) as Cassandra prints them.

mod name;
mod property;
mod statement;
mod term;
mod type_name;

mod modification;
mod relation;
mod select;
mod transaction;

mod describe;
mod function;
mod index;
mod keyspace;
mod permission;
mod role;
mod table;
mod trigger;
mod user_type;
mod view;

mod display;

pub use name::{FunctionName, QualifiedName};
pub use property::{Properties, Property, PropertyValue};
pub use statement::{RoleStatement, SchemaStatement, Statement};
pub use term::{ArithmeticOperator, Literal, LiteralKind, Marker, Term};
pub use type_name::{NativeType, TypeName};

pub use modification::{
    Assignment, Batch, BatchKind, Condition, ConditionTarget, ConditionTest, Conditions, Delete,
    DeletionTarget, Insert, InsertSource, JsonDefault, JsonValue, Modification, Operation, Update, Using,
};
pub use relation::{InValues, Operator, Relation, TupleInValues, TupleValue};
pub use select::{
    CellAttribute, HintedIndex, IndexHints, OrderDirection, Ordering, OrderingExpression, Select, SelectItem,
    Selection, Selector,
};

pub use transaction::{Let, Place, Reference, Returning, RowCondition, RowTest, Transaction};

pub use describe::{DescribeStatement, DescribeTarget};
pub use function::{CreateAggregate, CreateFunction, DropFunction, FunctionArgument};
pub use index::{CreateIndex, DropIndex, IndexTarget, IndexTargetKind};
pub use keyspace::{AlterKeyspace, CreateKeyspace, DropKeyspace};
pub use permission::{GrantPermissions, ListPermissions, Permission, Resource, RevokePermissions};
pub use role::{
    AddIdentity, AlterRole, CreateRole, DropIdentity, DropRole, GrantRole, ListRoles, RevokeRole, RoleOption,
    RoleSyntax,
};
pub use table::{
    AlterTable, AlterTableAction, ClusteringOrder, ColumnDefinition, ColumnMask, CreateTable, DropTable,
    PrimaryKey, TableOptions,
};
pub use trigger::{CreateTrigger, DropTrigger};
pub use user_type::{AlterType, AlterTypeAction, CreateType, DropType, FieldDefinition};
pub use view::{AlterView, CreateView, DropView, Prune};
