import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.Component;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.IScrubber;
import org.apache.cassandra.io.sstable.IVerifier;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;
import org.apache.cassandra.io.sstable.format.Version;
import org.apache.cassandra.io.sstable.metadata.StatsMetadata;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.SchemaTransformation;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.tools.BulkLoader;
import org.apache.cassandra.tools.JsonTransformer;
import org.apache.cassandra.tools.Util;
import org.apache.cassandra.utils.OutputHandler;
import org.apache.cassandra.utils.streamhist.TombstoneHistogram;

/**
 * What sstabledump, sstableverify, sstablemetadata, sstablescrub and sstableloader do, for any number of tables in one
 * Java process: a start of the virtual machine costs more than all of them.
 *
 * Reads a command per line from standard input, its words separated by tabs, and answers each with one line that begins
 * with "ok" or "FAIL".
 *
 *   schema STATEMENT            a CREATE or ALTER statement, for the tables to come
 *   dump DATA_FILE JSON_FILE    sstabledump -t
 *   check KEYSPACE TABLE scrub|rewrite JSON_FILE EMPTIED
 *                               verify the one SSTable of a table in the data folder, have it written again, dump the
 *                               result and compare the metadata of both. sstablescrub of 5.0.5 fails on every marker
 *                               of a range tombstone, so files with such can only be rewritten plainly.
 *                               EMPTIED partitions hold nothing but a column that was dropped, and are dropped by scrub
 *   verify KEYSPACE TABLE       sstableverify -f -e
 *   load ADDRESS FOLDER         sstableloader
 */
public final class SstableProof
{
    private static final String PARTITION_SIZES = "partition sizes";
    private static final String TOMBSTONE_BINS = "tombstone bins";

    private static PrintStream answers;

    public static void main(String[] arguments) throws IOException
    {
        answers = System.out;
        // The tools print to standard output, which is for answers here.
        System.setOut(System.err);
        if (arguments.length > 0 && arguments[0].equals("loader"))
            org.apache.cassandra.config.DatabaseDescriptor.clientInitialization();
        else
            Util.initDatabaseDescriptor();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine())
        {
            String answer;
            try
            {
                answer = run(line.split("\t", -1));
            }
            catch (Throwable error)
            {
                error.printStackTrace();
                answer = "FAIL " + oneLine(error);
            }
            answers.println(answer);
            answers.flush();
        }
        // Threads of Cassandra's own would keep the process.
        System.exit(0);
    }

    private static String run(String[] words) throws Exception
    {
        switch (words[0])
        {
            case "schema":
                alterSchema(words[1]);
                return "ok";
            case "dump":
                dump(Descriptor.fromFileWithComponent(new File(words[1]), false).left, words[2]);
                return "ok";
            case "check":
                return check(words[1], words[2], words[3].equals("scrub"), words[4], Integer.parseInt(words[5]));
            case "verify":
                List<String> faults = new ArrayList<>();
                verify(Keyspace.openWithoutSSTables(words[1]).getColumnFamilyStore(words[2]), faults);
                return faults.isEmpty() ? "ok" : "FAIL " + String.join("; ", faults);
            case "load":
                BulkLoader.main(new String[]{ "--no-progress", "-d", words[1], words[2] });
                return "ok";
            default:
                return "FAIL unknown command " + words[0];
        }
    }

    private static void alterSchema(String statement)
    {
        CQLStatement.Raw raw = CQLFragmentParser.parseAny(CqlParser::query, statement, "statement");
        CQLStatement prepared = raw.prepare(ClientState.forInternalCalls());
        Schema.instance.transform((SchemaTransformation) prepared);
        // Only the tables that a keyspace had when it was opened are open.
        String keyspace = ((CQLStatement.SingleKeyspaceCqlStatement) prepared).keyspace();
        Keyspace opened = Keyspace.openWithoutSSTables(keyspace);
        for (TableMetadata table : Schema.instance.getKeyspaceMetadata(keyspace).tables)
            if (opened.getColumnFamilyStores().stream().noneMatch(store -> store.metadata.id.equals(table.id)))
                opened.initCf(Schema.instance.getTableMetadataRef(table.id), false);
    }

    private static String check(String keyspace, String table, boolean scrubs, String json, int emptied) throws Exception
    {
        ColumnFamilyStore store = Keyspace.openWithoutSSTables(keyspace).getColumnFamilyStore(table);
        List<String> faults = new ArrayList<>();
        Version version = onlySstable(store).getKey().version;
        Map<String, String> before = verify(store, faults);
        if (scrubs)
            scrub(store, emptied, faults);
        else
            rewrite(store);
        if (!faults.isEmpty())
            return "FAIL " + String.join("; ", faults);
        Map.Entry<Descriptor, Set<Component>> rewritten = onlySstable(store);
        dump(rewritten.getKey(), json);
        SSTableReader sstable = SSTableReader.openNoValidation(rewritten.getKey(), rewritten.getValue(), store);
        // What was dropped from the table is not written again.
        Map<String, String> after = metadata(sstable);
        // Another version of Cassandra's does not take the same bytes for the same rows.
        if (!sstable.descriptor.version.equals(version))
            before.remove(PARTITION_SIZES);
        if (store.metadata().droppedColumns.isEmpty())
            compareMetadata(before, after, faults);
        sstable.selfRef().close();
        return faults.isEmpty() ? "ok" : "FAIL " + String.join("; ", faults);
    }

    private static Map.Entry<Descriptor, Set<Component>> onlySstable(ColumnFamilyStore store)
    {
        Directories.SSTableLister lister =
            store.getDirectories().sstableLister(Directories.OnTxnErr.THROW).skipTemporary(true);
        Map<Descriptor, Set<Component>> found = lister.list();
        if (found.size() != 1)
            throw new IllegalStateException(found.size() + " SSTables in "
                                            + store.getDirectories().getCFDirectories());
        return found.entrySet().iterator().next();
    }

    private static void dump(Descriptor descriptor, String json) throws IOException
    {
        TableMetadata metadata = Util.metadataFromSSTable(descriptor);
        SSTableReader sstable =
            SSTableReader.openNoValidation(null, descriptor, TableMetadataRef.forOfflineTools(metadata));
        try (ISSTableScanner scanner = sstable.getScanner(); OutputStream out = new FileOutputStream(json))
        {
            JsonTransformer.toJson(scanner, Util.iterToStream(scanner), true, metadata, out);
        }
        finally
        {
            sstable.selfRef().close();
        }
    }

    /** As sstableverify -f -e does; returns the metadata. */
    private static Map<String, String> verify(ColumnFamilyStore store, List<String> faults)
    {
        Map.Entry<Descriptor, Set<Component>> found = onlySstable(store);
        SSTableReader sstable = SSTableReader.openNoValidation(found.getKey(), found.getValue(), store);
        IVerifier.Options options = IVerifier.options().invokeDiskFailurePolicy(false).extendedVerification(true).build();
        Listener listener = new Listener();
        try (IVerifier verifier = sstable.getVerifier(store, listener, true, options))
        {
            verifier.verify();
        }
        catch (Exception error)
        {
            error.printStackTrace();
            faults.add("verify: " + oneLine(error));
        }
        listener.warnings.forEach(warning -> faults.add("verify: " + warning));
        Map<String, String> metadata = metadata(sstable);
        sstable.selfRef().close();
        return metadata;
    }

    private static void scrub(ColumnFamilyStore store, int emptied, List<String> faults)
    {
        Map.Entry<Descriptor, Set<Component>> found = onlySstable(store);
        SSTableReader sstable = SSTableReader.openNoValidation(found.getKey(), found.getValue(), store);
        Listener listener = new Listener();
        try (LifecycleTransaction transaction = LifecycleTransaction.offline(OperationType.SCRUB, sstable))
        {
            transaction.obsoleteOriginals();
            IScrubber.Options options = IScrubber.options().checkData().reinsertOverflowedTTLRows().build();
            try (IScrubber scrubber = sstable.descriptor.getFormat().getScrubber(store, transaction, listener, options))
            {
                IScrubber.ScrubResult result = scrubber.scrubWithResult();
                if (result.badPartitions > 0 || result.emptyPartitions != emptied)
                    faults.add("scrub dropped " + result.badPartitions + " bad and " + result.emptyPartitions
                               + " empty partitions, of " + emptied + " that are empty");
            }
        }
        LifecycleTransaction.waitForDeletions();
        // It looks for an entry of the index behind the last one, and says so.
        listener.warnings.removeIf(warning -> warning.endsWith("differs from index file row position -1"));
        listener.warnings.forEach(warning -> faults.add("scrub: " + warning));
    }

    private static void rewrite(ColumnFamilyStore store)
    {
        Map.Entry<Descriptor, Set<Component>> found = onlySstable(store);
        SSTableReader sstable = SSTableReader.openNoValidation(found.getKey(), found.getValue(), store);
        File folder = store.getDirectories().getDirectoryForNewSSTables();
        try (LifecycleTransaction transaction = LifecycleTransaction.offline(OperationType.UPGRADE_SSTABLES, sstable);
             SSTableWriter writer = CompactionManager.createWriter(store, folder, sstable.estimatedKeys(), 0, null, false,
                                                                   sstable, transaction);
             ISSTableScanner scanner = sstable.getScanner())
        {
            while (scanner.hasNext())
                try (UnfilteredRowIterator partition = scanner.next())
                {
                    writer.append(partition);
                }
            transaction.update(writer.finish(true), false);
            transaction.obsoleteOriginals();
            transaction.finish();
        }
        LifecycleTransaction.waitForDeletions();
    }

    /** What sstablemetadata prints, without what depends on who wrote the file. */
    private static Map<String, String> metadata(SSTableReader sstable)
    {
        StatsMetadata stats = sstable.getSSTableMetadata();
        Map<String, String> fields = new LinkedHashMap<>();
        fields.put("first key", sstable.getFirst().toString());
        fields.put("last key", sstable.getLast().toString());
        fields.put("minimum timestamp", String.valueOf(stats.minTimestamp));
        fields.put("maximum timestamp", String.valueOf(stats.maxTimestamp));
        fields.put("minimum local deletion time", String.valueOf(stats.minLocalDeletionTime));
        fields.put("maximum local deletion time", String.valueOf(stats.maxLocalDeletionTime));
        fields.put("minimum TTL", String.valueOf(stats.minTTL));
        fields.put("maximum TTL", String.valueOf(stats.maxTTL));
        fields.put("rows", String.valueOf(stats.totalRows));
        fields.put("cells", String.valueOf(stats.totalColumnsSet));
        fields.put("covered clustering", stats.coveredClustering.toString(sstable.metadata().comparator));
        fields.put("partition deletions", String.valueOf(stats.hasPartitionLevelDeletions));
        fields.put("legacy counter shards", String.valueOf(stats.hasLegacyCounterShards));
        fields.put(PARTITION_SIZES, histogram(stats.estimatedPartitionSize.getBuckets(false)));
        fields.put("cells per partition", histogram(stats.estimatedCellPerPartitionCount.getBuckets(false)));
        fields.put("tombstones", tombstones(stats.estimatedTombstoneDropTime, false));
        fields.put(TOMBSTONE_BINS, tombstones(stats.estimatedTombstoneDropTime, true));
        fields.put("header", sstable.header.toString());
        fields.put("estimated keys", String.valueOf(sstable.estimatedKeys()));
        return fields;
    }

    private static String tombstones(TombstoneHistogram histogram, boolean bins)
    {
        StringBuilder text = new StringBuilder();
        long[] sum = new long[1];
        histogram.forEach((second, count) -> {
            text.append(second).append(':').append(count).append(' ');
            sum[0] += count;
        });
        return bins ? text.toString() : String.valueOf(sum[0]);
    }

    private static String histogram(long[] buckets)
    {
        StringBuilder text = new StringBuilder();
        for (int index = 0; index < buckets.length; index++)
            if (buckets[index] != 0)
                text.append(index).append(':').append(buckets[index]).append(' ');
        return text.toString();
    }

    private static void compareMetadata(Map<String, String> written, Map<String, String> rewritten, List<String> faults)
    {
        // Bins that were merged for want of room depend on the order in which they were filled: then only the sum counts.
        int binCount = rewritten.get(TOMBSTONE_BINS).split(" ").length;
        if (binCount >= SSTable.TOMBSTONE_HISTOGRAM_BIN_SIZE)
            written.remove(TOMBSTONE_BINS);
        written.forEach((name, value) -> {
            if (!value.equals(rewritten.get(name)))
                faults.add("metadata: " + name + " is " + value + " where Cassandra writes " + rewritten.get(name));
        });
    }

    private static String oneLine(Throwable error)
    {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause())
            text.append(text.length() == 0 ? "" : " <- ").append(cause);
        return text.toString().replace('\n', ' ');
    }

    /** Keeps what a tool would warn of. */
    private static final class Listener implements OutputHandler
    {
        final List<String> warnings = new ArrayList<>();

        @Override
        public void output(String message)
        {
        }

        @Override
        public void debug(String message)
        {
        }

        @Override
        public void warn(String message)
        {
            warnings.add(message.replace('\n', ' '));
        }

        @Override
        public void warn(Throwable error, String message)
        {
            warnings.add((message + ": " + oneLine(error)).replace('\n', ' '));
        }
    }
}
