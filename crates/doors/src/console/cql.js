// What the editor completes: words of CQL, and names of the schema.

const WORDS = `SELECT FROM WHERE AND ORDER BY ASC DESC LIMIT PER PARTITION ALLOW FILTERING BYPASS CACHE INSERT INTO VALUES IF NOT EXISTS USING TTL
TIMESTAMP UPDATE SET DELETE BEGIN BATCH APPLY UNLOGGED COUNTER CREATE TABLE KEYSPACE TYPE INDEX MATERIALIZED VIEW WITH replication
PRIMARY KEY CLUSTERING DROP ALTER ADD RENAME TRUNCATE DESCRIBE KEYSPACES TABLES DISTINCT JSON COUNT TOKEN IN CONTAINS ANN OF GROUP
AS CAST WRITETIME LIST ROLES CREATE ROLE GRANT NULL TRUE FALSE text int bigint boolean uuid timeuuid timestamp blob double float
decimal varint inet date time duration smallint tinyint ascii counter list map set tuple frozen vector static`.split(/\s+/);

/** The names of a schema: columns as rows of system_schema.columns. */
export class Schema {
  constructor(columns) {
    this.tables = new Map();
    for (const { keyspace_name: keyspace, table_name: table, column_name: column, type } of columns) {
      const name = `${keyspace}.${table}`;
      if (!this.tables.has(name)) this.tables.set(name, []);
      this.tables.get(name).push({ text: column, about: type });
    }
  }

  get keyspaces() {
    return [...new Set([...this.tables.keys()].map((name) => name.split(".")[0]))].sort();
  }

  /** What may stand where the caret is: [{text, about}], best first, and how many characters of it are there. */
  complete(before, whole, keyspace) {
    const word = /[\w.]*$/.exec(before)[0];
    const typed = word.toLowerCase();
    const choices = [];
    const add = (text, about) => {
      if (text.toLowerCase().startsWith(typed) && text.toLowerCase() !== typed) choices.push({ text, about });
    };
    for (const column of this.columnsOf(whole, keyspace)) add(column.text, column.about);
    for (const name of this.tables.keys()) {
      add(name, "table");
      const [of, table] = name.split(".");
      if (of === keyspace) add(table, "table");
    }
    for (const name of this.keyspaces) add(name, "keyspace");
    if (typed) for (const text of new Set(WORDS)) add(text, "");
    return { choices: choices.slice(0, 12), typed: word.length };
  }

  columnsOf(statement, keyspace) {
    const named = /\b(?:from|into|update)\s+([\w.]+)/i.exec(statement);
    if (!named) return [];
    const name = named[1].toLowerCase();
    return this.tables.get(name.includes(".") ? name : `${keyspace}.${name}`) ?? [];
  }
}
