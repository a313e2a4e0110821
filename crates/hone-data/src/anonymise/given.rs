//! Given names that are common somewhere, and little else. What stands behind one, with a capital, is a surname: see [`super::name`].
//!
//! They are those of several countries in the lists of Faker (MIT), as far as people write them often, and the most common ones of the
//! other languages of Europe, as they are written there and without their marks. Names that are also words, months, places, tools or models (Will, May, Charlotte, Julia, Claude) are left out, and so are those that
//! are surnames of as many: they would be found where nobody is meant.

use super::cue::Short;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;

const GIVEN: &str = "\
    Aage Aapo Aarne Aaro Aaron Aarón Aatos Abbas Abbi Abby Abdelkader Abdul Abdulkadir Abdullah Abdülkerim Abelardo \
    Abigail Abiye Abram Acar Achille Achim Adah Adak Adalbert Adalberto Adam Adamo Adela Adele Adelheid Adelina \
    Adeline Adina Aditya Admir Adnan Adolfo Adolphe Adoración Adria Adriaan Adrian Adriana Adriano Adrien Adrienn \
    Adrienne Adrián Adán Adèle Adéla Aferdita Afiq Afton Afërdita Agata Agathe Agnar Agnes Agnese Agneta Agnieszka \
    Agnès Agostino Agota Agris Agron Agustin Agustina Agustín Agáta Ahmad Ahmet Ahti Aidan Aiden Aigars Aikaterini \
    Aiko Aila Ailbhe Aileen Ailene Aimable Aimee Aimo Aimée Ainhoa Ainārs Airi Aisha Aisling Aistis Aitor Aivaras \
    Aivars Ajda Ajeng Akay Akbaş Akmal Akos Akram Aksel Akseli Alaaddin Aladin Alaeddin Alain Alan Alasdair Alastair \
    Alaya Albano Alberico Albert Alberte Alberto Albin Albina Albín Alcan Alcides Aldin Aldis Aldo Aldís Alec \
    Alejandra Alejandro Alejo Alek Aleks Aleksandar Aleksander Aleksandr Aleksandra Aleksanteri Aleksei Aleksej \
    Aleksey Alena Alenka Alessandra Alessandro Alessia Aleta Alex Alexander Alexandr Alexandra Alexandre Alexandrie \
    Alexandrina Alexandru Alexe Alexei Alexej Alexey Alexia Aleš Alfons Alfonso Alfred Alfreda Alfredo Alfreð Alfréd \
    Alfrēds Algirdas Alica Alice Alicia Alicja Alida Alina Aline Alisa Alisha Alison Alisson Alistair Alivia Alix \
    Aliya Aliyah Alja Aljaž Aljoša Alka Allan Allegra Allena Allison Almendra Almir Alois Alojz Alojzij Alojzija \
    Alphonse Alpin Althea Altuğ Alva Alvar Alvaro Alver Alvin Alvis Alwin Alya Alyssa Alzbeta Alžbeta Alžběta Amada \
    Amadeo Amadeus Amador Amaia Amalia Amalie Amalija Amanda Amandine Amando Amani Ambar Ambre Ambrosio Amedeo Amelia \
    Amelie Amelija Amina Amir Amira Amirah Amit Amleto Amparo Amrita Amy Amália Amélia Amélie Américo Ana Anaelle \
    Anais Anamaria Ananias Anastasia Anastasie Anastasiia Anastasios Anastasía Anatol Anatolie Anatolij Anatoly Anay \
    Anaëlle Anaïs Ancuta Ancuța Anders Andor Andras Andrea Andreas Andreea Andrei Andreia Andrej Andres Andreu Andrew \
    Andrey Andria Andrii Andris Andriy Andrus Andrzej Andrá András André Andréa Andrée Andrés Anděla Aneta Anett \
    Anette Anežka Angela Angele Angelica Angelika Angeliki Angelina Angeline Angelique Angharad Angie Angèle Angélica \
    Angélique Anica Anie Anika Anil Anina Anis Anisa Anita Aniya Anja Anjali Anka Anke Ann Anna Annabel Annabelle \
    Annalisa Annamaria Annamária Anne Annegret Anneke Anneli Annelie Annelies Anneliese Anneloes Annemarie Annemiek \
    Annette Annibale Annick Annie Anniina Annija Annika Anniken Annikki Annunziata Anom Anouk Anselm Anselmo Ansis \
    Antanas Antero Anthony Antim Antje Antoine Antoinette Anton Antonella Antonia Antonie Antonieta Antonietta \
    Antonija Antonin Antonina Antonino Antonio Antonis Antoniu Antonius Antony Antti Antun António Anya Aníbal Aníta \
    Anže Aodhan Aodhán Aoife Apostolos Aqil Aquiles Araceli Arben Arden Areti Ariana Ariane Arianna Arild Arina \
    Arinbjörn Aristide Arjen Arjun Arkadiusz Arla Arlene Arlette Armand Armando Armands Arminas Arnaldo Arnaldur Arnas \
    Arnau Arnaud Arndt Arndís Arne Arnfríður Arngrímur Arni Arnim Arnis Arno Arnold Arnoldas Arnoldo Arnošt Arnþór \
    Aronas Arpad Arsenie Arsenio Artemio Arthur Artur Arturo Arturs Artúr Arvid Arvin Arvydas Arvīds Asad Asalet \
    Asbjorn Asbjørn Ascensión Asger Ashild Ashleigh Ashley Ashok Asif Askja Asko Asliye Assar Assunta Astrid Asuncion \
    Asunción Asım Atalay Atena Athanasios Atila Atit Atla Atte Attila Attilio Atılgan Audrey Augustas Auguste Augustin \
    Augusto Augustín Auli Aulis Aurelia Aurelian Aurelie Aurelien Aurelija Aurelio Aurore Aurélie Aurélien Ausma \
    Austar Austra Auðun Auðunn Aušrinė Avelino Averi Avni Axelle Aydan Aydin Ayesha Aygün Ayla Aylin Aynur Ayoub Ayse \
    Aysel Ayten Ayub Ayşe Ayşenur Azad Azeglio Aziz Azize Azra Aðalbjörg Aðalheiður Aþena Babette Badawi Bagas Bahadır \
    Bahari Baiba Bajram Balazs Ballı Baltasar Baltazar Balthasar Balvan Balázs Bancar Baptiste Barak Barbara Barbora \
    Barbra Barbro Barnabas Barnabás Bartek Bartlomiej Bartolomeo Bartolomeu Bartosz Bartłomiej Barði Basarab Bashar \
    Basilio Bastiaan Basım Baudouin Baugur Bauke Beata Beate Beatrice Beatrix Beatriz Becky Bedri Bedrich Bedřich \
    Begona Begoña Beinir Bekim Bektaşi Belen Belinda Belén Benedicte Benedicto Benedikta Bengt Benito Benjamim \
    Benjamin Benjamín Benjámin Bennie Benoit Benone Benoît Bente Beppe Beren Berend Berglind Bergljót Bergur Bergþór \
    Bergþóra Berit Berki Bernabé Bernadett Bernadette Bernard Bernarda Bernardo Bernat Bernd Berndt Bernhard Berni \
    Bernice Bernt Bersi Berta Bertalan Bertel Bertha Berthe Bertil Berto Bertram Beryl Besart Besim Besnik Bessi Beth \
    Bethany Bettina Betty Beverley Beverly Beáta Biagio Bianca Bianka Bibiana Biel Bilal Bilgen Biljana Billy Binay \
    Birger Birgit Birgitta Birkir Birna Birnir Birsen Birte Birthe Birtir Biruta Birute Birutė Bjarkar Bjarnar Bjarne \
    Bjarni Bjartmar Bjoern Bjorg Bjorn Björgólfur Björn Bjørg Bjørn Blanka Blathnaid Blažena Blerim Bláthnaid Blær \
    Blíða Boaz Bodhi Bodil Bogdan Bogdana Bogi Boglarka Boglárka Bogomir Bogumila Bogumiła Boguslaw Bogusław Bohdan \
    Bohumil Bohumila Bohuslav Bohuslava Bojan Boleslaw Bolesław Bonnie Bonny Borbála Borgþór Boris Borivoj Borys \
    Bostjan Botond Boyko Bozena Bozidar Bořivoj Boštjan Bożena Božena Božica Božidar Božidara Božo Brais Bram Brandi \
    Brandon Brandur Branislav Branislava Branka Branko Braulio Braxton Brayan Brecht Brenda Brendan Brendon Breno \
    Brestir Brian Briana Brice Bridget Brielle Brieuc Brigid Brigita Brigitta Brigitte Brinda Brisa Brita Britney \
    Britt Britta Brittany Broddi Bronislaw Bronislawa Bronisław Bronisława Bronwen Brooke Bruna Bruni Bryan Bryn \
    Bryndis Bryndís Brynhildur Brynja Brynjar Brynjólfur Bríd Bríet Buenaventura Bujar Bulent Burak Burkhard Busra \
    Bylgja Bára Bárbara Bárður Bärbel Béatrice Béla Bénédicte Börje Börkur Böðvar Bøje Børge Búri Bülent Büşra \
    Břetislav Cahyo Cahyono Caitlin Caitlyn Cakrawala Caleb Callum Calogero Calum Camelia Camil Camila Camilla Camille \
    Camillo Camilo Canan Candace Candelaria Candice Candida Candido Candra Caoimhe Caprice Cara Caridad Carie Carin \
    Carina Carine Carita Carl Carla Carles Carlito Carlos Carlota Carlotta Carly Carmela Carmelo Carmen Carmina \
    Carmine Carol Carola Carole Carolien Carolin Caroline Carolyn Carri Carrie Carsten Casian Cassandra Cassie Cassius \
    Catalin Catalina Catarina Caterina Cathal Catharina Catherine Cathrine Cathy Catrina Catriona Cavit Cayetano \
    Cecile Cecilia Cecilie Cecily Cecília Cedric Celeste Celestino Celia Celina Celine Celso Cemal Cemeti Centa \
    Centrine Cerys Cesar Cevheri Ceyhun Cezara Cezary Cezayir Chaka Chantal Chao Charalampos Charita Charlene Charles \
    Charlie Charlotta Charly Charmaine Charo Cherie Cheryl Chiara Chinelo Chiquita Chita Chloe Chloé Chris Christa \
    Christel Christelle Christer Christiaan Christiana Christiane Christin Christina Christine Christof Christoffer \
    Christoph Christophe Christopher Christos Christy Chrysoula Chynna Ciara Ciaran Ciarán Cici Cigdem Cillian Cindy \
    Cinzia Ciprian Cipriano Ciril Ciro Clare Clarence Clarice Clarisa Clarissa Clarisse Clas Claudia Claudine Claudio \
    Claudiu Clemence Clemencia Clemens Clemente Clementina Cleo Clive Clodagh Clotilde Clovis Cláudia Clémence Clément \
    Clémentine Cody Coleen Colette Colleen Colm Colomba Conceicao Conceição Concetta Connie Connor Conny Conor Conrado \
    Constantin Constantino Constanza Constanze Consuela Consuelo Coolidge Cordelia Corentin Corey Cori Corina Corinna \
    Corinne Cormac Corneille Cornel Cornelia Cornelio Cornelis Corneliu Corrado Corrie Corvin Cosimo Cosmin Costache \
    Costantino Costanzo Costel Courtney Craig Crin Crina Cristi Cristian Cristiano Cristina Cristine Cristobal Cristy \
    Cristóbal Csaba Csilla Csongor Ctibor Curro Custodio Cvetka Cynthia Cyril Czeslaw Czesław Cécile Cédric Célia \
    Céline César Cătălin Cătălina Daan Dacian Dadi Dagfinn Dagmar Dagný Dagoberto Dahlia Daiga Daisuke Daiva Daja \
    Dajana Dalan Daler Dalibor Dalkılıç Damaris Damian Damiano Damien Damijan Damir Damián Damjan Damjana Damu Dana \
    Danang Danial Danica Daniel Daniela Daniele Danielius Daniella Danielle Danijel Danijela Danilo Danièle Daniël \
    Danuta Danutė Dany Daphne Daria Darija Darina Darinka Darius Dariusz Darja Darko Darla Darlene Darrell Darren \
    Darri Darryl Daryl Darío Dasa David Davor Davorin Dayami Dayana Deana Deanna Debbie Debby Debi Debora Deborah \
    Debra Decebal Declan Deepak Deha Deirdre Dejan Delfina Delfino Delfín Delia Delila Delos Delphine Demeter Demetrio \
    Demian Dena Denis Denisa Denise Dennis Denny Derek Derrick Desislava Desmond Despina Destini Detlef Detlev Deviner \
    Dezso Dezső Diah Diana Diane Dianne Diarmuid Didier Diederik Dieter Diether Dietmar Dijana Dilan Dilara Dimas \
    Dimitar Dimitra Dimitri Dimitrios Dimitris Dina Dinda Dinesh Dink Diogo Dionisio Dipa Dirk Dirlik Ditte Diána \
    Djordje Dmitri Dmitry Dmytro Dochia Doina Dola Dolph Domagoj Domantas Domenico Dominic Dominik Dominika Dominique \
    Dominyka Dominykas Donal Donald Donat Donata Donatella Donato Donita Donna Donnacha Dora Doreen Dorel Dorina Doris \
    Dorota Dorotea Dorothea Dorothee Dorothy Dorothée Dorottya Dorte Dorthe Douglas Dovilė Dragan Dragana Dragica \
    Dragos Dragoș Drahomíra Dražen Dreki Drilon Drita Dritan Driton Duane Dubravka Dumitru Duncan Dunja Dusan Dušan \
    Dwayne Dylan Dzidra Dzintra Dániel Débora Désiré Désirée Díana Dísa Dóra Dóri Dögun Dörte Dúfa Dýri Dārta Eamon \
    Eamonn Ebba Ebbi Eckart Eckhard Eddie Edel Edeltraud Edgard Edgardo Edgars Edie Edita Edith Edmond Edmund Edmunds \
    Edna Edoardo Edouard Edson Eduard Eduarda Eduardo Edurne Edvard Edvin Edvinas Edvīns Edward Edwin Edwina Edyta \
    Edīte Eemeli Eetu Eeva Effa Efraín Efrem Efren Egbert Eglė Egon Egor Ehsan Eija Eila Eileen Eilidh Eilífur \
    Eimantas Einar Eino Eirik Eirikur Eirini Eiríkur Eitel Eiður Ejnar Ekaterina Ekber Ekkehard Elaine Eldar Eldey \
    Eldjárn Eleanor Electa Elemér Elena Eleni Eleonora Elfa Elfi Elfriede Eliana Eliane Elias Elif Elijah Elina Elinor \
    Elio Elisa Elisabet Elisabeth Elisabetta Elise Eliseo Elita Eliza Elizabet Elizabeta Elizabeth Eliáš Eliška Elka \
    Elke Ella Ellen Ellert Ellie Elliði Ellý Elma Elmar Elmārs Elna Elodie Eloisa Elsa Elsie Elske Elvan Elvar Elver \
    Elvi Elvin Elvira Elza Elzbieta Elçin Elías Elín Elínborg Elżbieta Emanoil Emanuel Emanuela Emanuele Embla Emelie \
    Emer Emese Emil Emile Emilia Emilian Emiliano Emilie Emilija Emilio Emilis Emily Emilía Emine Emma Emmanuel \
    Emmanuelle Emmer Emmi Emperatriz Emre Emrullah Emrys Emília Emīlija Encarna Encarnacion Encarnación Endah Endre \
    Enea Eneko Enfes Engelbert Engilbert Engill Engla Eniko Enikő Enis Ennio Enoch Enric Enrico Enrique Ensar Enteng \
    Enzo Eoin Ephraim Epifanio Erasmo Erbil Ercan Eremia Ergün Erhard Erica Erich Erik Erika Erin Erina Eris Eriş \
    Erkki Erlendur Erling Erlingur Ermanno Erna Ernest Ernestas Ernesto Ernir Ernst Ernő Erpur Errol Ertan Erten \
    Ertugrul Ertuğrul Erva Ervin Erwan Eryk Erzsebet Erzsébet Esau Esben Esja Esker Eskil Esma Esmeralda Esparta Espen \
    Esra Esteban Estefanía Estela Estella Estelle Estera Esther Eszter Ethel Etienne Ettore Euan Eugene Eugenia \
    Eugenie Eugenio Eugène Eugénie Eula Eulalia Eunice Eusebio Eusebiu Eva Evangelia Evangelos Evaristo Evelien \
    Eveliina Evelin Evelina Eveline Evelyn Evelyne Evert Evgeni Evgeny Evie Evija Evita Ewa Ewald Ewan Ewelina Eydís \
    Eygló Eyrún Eysteinn Eyvindur Ezekiel Ezequiel Ezio Ezra Eşref Fabia Fabian Fabiana Fabien Fabienne Fabio Fabiola \
    Fabián Fabrice Fabricio Fabrizio Fadil Fadime Fahmi Faize Fannar Fanney Fanni Faraj Farid Faris Fariz Fatih Fatiha \
    Fatima Fatma Fatmir Faustas Faustino Fausto Fayette Feargal Federica Federico Felicia Felicitas Felicity Feliks \
    Felipe Felix Femke Fengur Ferdinand Ferenc Fergal Fergus Ferhan Ferhat Ferman Fermín Fernand Fernanda Fernando \
    Fetullah Ffion Fiadh Fidel Fien Filip Filipa Filippa Filippo Filomena Finnboga Finnbogi Finney Fintan Fiona \
    Fionnuala Fito Fitria Fjóla Fjölnir Flavia Flavio Flemming Flore Florencia Florencio Florent Florentin Florentino \
    Florența Florian Florica Florina Floris Flosi Flutura Flóki Flóra Folke Forni Fortunata Fotini Franca Frances \
    Francesc Francesca Francesco Franci Francine Francis Francisca Francisco Franciscus Franciska Franck Francois \
    Franjo Frank Franklín Franky Frantisek František Franz François Françoise Frauke Fred Freda Freddy Frede Frederic \
    Frederick Frederico Frederik Frederikke Fredo Fredric Fredrik Fredrika Fredy Freia Freja Freya Freyja Fricis Frida \
    Fridolin Fridrich Frieda Friederike Friedhelm Friedrich Frigg Frits Fritz Friðgeir Friðjón Frosti Fryderyk \
    Frédéric Frédérique Frímann Fríða Fríður Fróði Fulvio Fuma Fuzuli Fylkir Fyodor Fálki Fátima Félix Fönn Fúsi Fügen \
    Gabel Gabor Gabriel Gabriela Gabriele Gabrielius Gabriella Gabrielle Gabríel Gaby Gadang Gael Gaelle Gaetano Gail \
    Gaja Galak Galdur Galih Galilea Galina Galuh Gamze Gani Gantar Garazi Gareth Garpur Garry Gary Gaspar Gaspare \
    Gastón Gauja Gauri Gaute Gavin Gaye Gazel Gaël Gaëlle Gebhard Geert Geertje Geir Geira Geiri Geirmundur Gejza \
    Gellir Gelu Gema Gemma Gena Genaro Genevieve Geneviève Gennady Gennaro Geno Genoveva Genowefa Geoffrey Geoffroy \
    George Georges Georgeta Georgette Georgi Georgiana Georgie Georgina Georgios Geraint Gerald Geraldine Geraldo \
    Gerard Gerardo Gerd Gerda Gergana Gergely Gergo Gergő Gerhard Gerhardt Gerhart Germaine Germana Germán Gernot \
    Gerold Gerrit Gerry Gerson Gert Gertrud Gertrude Gerða Gerónimo Gesine Gethin Gezim Ghani Ghenadie Gheorghe \
    Gheorghiță Ghislain Ghislaine Ghiță Giacinto Giacobbe Giacomo Giada Giampaolo Giampiero Gian Giancarlo Gianfranco \
    Gianluca Gianmarco Gianna Gianni Giannis Gică Gideon Giedre Giedrė Gijs Gilang Gilberte Gilberto Gilda Gilles \
    Gillian Gilman Gilmar Gina Ginette Ginny Gino Gintaras Gintarė Gints Gioacchino Giorgia Giorgio Giorgos Giovanna \
    Giovanni Girik Girolamo Gisela Gisele Giselle Gisli Gissur Gisèle Gitte Giulia Giuliana Giuliano Giulietta \
    Giuseppe Giuseppina Giustino Gizella Gladys Glenda Glenn Gloria Glóð Glúmur Godelieve Goedele Goffredo Gokhan \
    Goncalo Gonzalo Gonçalo Goran Gorazd Gordan Gordana Gordon Gorka Gorm Gosta Gottfried Gotthard Gottlieb Gottlob \
    Goði Graciela Grainne Grani Grania Graziano Graziella Grazyna Grażyna Greg Grega Gregg Gregor Gregorio Gregory \
    Greta Gretchen Grete Gretel Grethe Griet Grieta Grigoris Grigory Grzegorz Gráinne Grégoire Grégory Grét Gréta \
    Gríma Gróa Gudbjorg Gudjon Gudmundur Gudrun Guenter Guenther Gugu Guido Guillaume Guillem Guillermo Gulay Gullan \
    Gulsen Gunborg Gundel Gunhild Gunilla Gunita Gunnar Gunnel Gunnhild Gunnhildur Gunnlaug Gunnsteinn Gunta Gunter \
    Gunther Guntis Guss Gustaf Gustas Gustav Gustave Gustavo Gustaw Gustáv Gusztáv Gutti Guttormur Guðbjartur Guðbjörg \
    Guðbjörn Guðbrandur Guðfinna Guðjón Guðlaug Guðmunda Guðmundur Guðríður Guðrún Gwen Gwenael Gwenaël Gwilym Gwyneth \
    Gyorgy Gytis Gyða Gyöngyi György Györgyi Győző Gábor Gæfa Génesis Gérald Géraldine Gérard Géza Gëzim Gígja Gísli \
    Gökhan Gökten Gönen Göran Gösta Gústaf Gülay Gülsüm Gülten Gülçin Gülüş Gülşen Günay Güngören Günter Günther \
    Haakon Habil Haddi Hafdís Hafliða Hafliði Hafni Hafsteinn Hafþór Hagalín Hailey Hajnalka Hakan Hakon Haley Halid \
    Halil Halina Hallbjörn Halldor Halldór Hallgerður Hallgrimur Hallgrímur Hallur Halsey Halvor Halyna Hami Hamid \
    Hamish Hampus Hamza Hamzah Hanedan Hanife Hanim Hanna Hannah Hanne Hanneke Hannele Hannelore Hannes Hanns Hannu \
    Hanny Hans Hansa Hansjörg Hanss Haralambie Harald Haraldur Harini Harja Harman Harold Haroldo Harrie Harriet Harry \
    Hartmut Hartwig Haruka Hasan Hassan Hatice Hauke Hayley Heather Heba Hector Hedda Hedvig Hedwig Heidi Heidrun \
    Heike Heiki Heikki Heiko Heimo Heiner Heini Heinrich Heinz Heitor Heiða Heiðrún Hektor Heleen Helen Helena Helene \
    Helga Helge Helgi Helinä Hellen Helma Helmer Helmut Helvi Hendri Hendrik Henk Henna Hennie Henny Henri Henric \
    Henrieta Henrietta Henriette Henrik Henrika Henrike Henry Henryk Heraldo Herbert Herdis Herdís Heribert Heriberto \
    Herjólfur Herma Hermann Hermanni Hermine Hernán Hersir Herta Hertha Heru Herve Hervé Hessel Hetty Hicran Hideo \
    Hilario Hilary Hilda Hildar Hilde Hildegard Hildigunnur Hildur Hilkka Hilma Hilmir Hiltrud Hinrik Hipólito Hiram \
    Hiroshi Hjalmar Hjalta Hjálmur Hjördís Hjörleifur Hjörvar Hljómur Hlynur Hlíf Hlífar Hlín Hlíðar Holger Holti \
    Homero Horacio Horațiu Horea Horst Hortense Hortensia Howard Hrafnar Hrafnhildur Hrafnkell Hrannar Hrefna Hreimur \
    Hreiðar Hrund Hrvoje Hrói Hrólfur Hrönn Hrútur Hubert Hubertus Huey Hugh Hugi Huginn Hugleikur Hugo Hugrún Hugues \
    Huguette Huld Hulda Huldar Hulya Humberto Hunor Huseyin Hussein Huub Huxley Hylur Hynek Hywel Hálfdan Hálfdán \
    Hávarður Håkan Håkon Hængur Héctor Hélène Héðinn Hólmar Hólmfríður Hólmsteinn Högna Högni Höskuldur Húni Hüda \
    Hükümdar Hülya Hümeyra Hürmet Hüseyin Iago Iain Ian Iara Iben Ibolya Ibrahim Ibrani Icha Idoia Ieremia Ieuan \
    Ignace Ignacia Ignacio Ignacy Ignaz Ignazio Ignác Igor Ihor Ihsan Iida Iiris Iker Ikhsan Ikram Ilah Ilari Ilaria \
    Ilarion Ildefonso Ildiko Ildikó Ileana Ilias Ilinca Ilir Ilja Ilka Ilkka Illugi Ilmur Ilona Ilonka Ilse Ilya Ilyas \
    Imani Imants Imelda Immacolata Immanuel Immo Imran Imre Inaki Inaya Indira Indriði Indriķis Indrė Ineke Ines Inese \
    Ineta Inga Ingeborg Ingegerd Ingela Ingemar Inger Ingibjorg Ingibjörg Ingileif Ingimar Ingimundur Ingjaldur Ingmar \
    Ingrid Ingrida Ingrīda Inguna Ingunn Ingvar Ingveldur Ingvi Ingvild Inigo Inkeri Inmaculada Insa Inta Inès Inés \
    Inês Ināra Ioana Ioanna Ioannis Iolanda Iolo Ionela Ionică Ionut Ionuț Irena Irene Ireneusz Irfan Irina Irinel \
    Irja Irma Irmantas Irmeli Irmgard Irwan Iryna Irène Irén Irēna Isaac Isabel Isabela Isabell Isabella Isabelle Isac \
    Isadora Isaiah Isak Isaías Isidor Isidora Isidoro Isidro Ismael Ismail Ismet Isolde Istvan István Itziar Iuliana \
    Iurie Iustin Iustinian Ivan Ivana Ivanka Ivano Ivars Ivaylo Iveta Ivica Ivo Ivone Ivonne Iván Iwona Izabela \
    Izabella Izabelė Izidor Iztok Iðunn Iñaki Iñigo Işın Jaafar Jaan Jaap Jabbar Jace Jacinta Jacinto Jackie Jacky \
    Jaclyn Jacob Jacobo Jacobus Jacopo Jacqueline Jacques Jader Jadranka Jadwiga Jafar Jagat Jagger Jaime Jair Jairo \
    Jairus Jakob Jakobína Jakub Jalal Jalmari Jamal James Jamie Jamila Jana Jane Janet Janette Janez Janice Janie \
    Janin Janina Janine Janis Janja Janko Janna Janne Janneke Jannik Jannika Janos Jantje Janusz Jaqueline Jared \
    Jarkko Jarle Jarmila Jarmo Jarno Jarolím Jaromíra Jaron Jaroslav Jaroslava Jaroslaw Jarosław Jasin Jasmani Jasmijn \
    Jasmina Jason Jaume Javier Jayden Jayne Jayson Jazmín Jean Jeana Jeanette Jeanine Jeanne Jeannette Jeannine Jeff \
    Jeffery Jeffrey Jefri Jekaterina Jelena Jelita Jelka Jelle Jemal Jenna Jenni Jennie Jennifer Jenny Jens Jenő Jere \
    Jeremiah Jeremias Jeremy Jeremías Jermaine Jerneja Jeroen Jerome Jeronimo Jerry Jerzy Jerónimo Jesper Jessica \
    Jessie Jessy Jesús Jethro Jeton Jhon Jill Jillian Jim Jimena Jindra Jindrich Jindřich Jiri Jitka Jiřina Jiří \
    Joachim Joakim Joan Joana Joanna Joanne Joao Joaquim Joaquin Joaquina Joaquín Jocelyn Jocelyne Jochen Jodi Jodie \
    Joel Joella Joelle Joep Joerg Joergen Johan Johana Johann Johanna Johanne Johannes John Johnnie Johnny Johny Jokin \
    Jokūbas Jolanda Jolanta Jolina Jonah Jonas Jonatan Jonathan Jonathon Joni Jonna Jonáš Joona Joop Joost Jordana \
    Jorg Jorge Jorgen Joris Jorma Jorunn Jose Josef Josefa Josefin Josefina Josefine Josep Joseph Josepha Josephien \
    Josephine Josette Joshua Josiah Josiane Josip Jostein Josune Josué José Josée Joséphine Jouni Jovita Jozef Jozo \
    Jozsef João Joël Joëlle Joško Jožica Juan Juana Juanita Juanito Judit Judita Judith Judy Juergen Juha Jukka Jule \
    Jules Julian Juliana Juliane Julianna Julie Julien Juliet Julieta Juliette Julijana Julio Juliusz Julián Junia \
    Juozas Juraj Jurate Jurgen Juri Jussi Justin Justina Justine Justus Justyna Jutta Juul Jyrki Jytte János Játvarður \
    Jázmin Jérémie Jérémy Jérôme Jéssica Jóel Jóhann Jóhanna Jón Jónatan Jónína Jóra Jórunn Jósef Jósep Jósúa József \
    Jökla Jökull Jörg Jörgen Jörn Jörundur Jørgen Júlia Júlía Júlíana Jürgen Jüri Jānis Jāzeps Jēkabs Jūratė Kaan \
    Kaaren Kaarina Kaarlo Kacper Kadin Kadir Kadri Kael Kahina Kaia Kaija Kaila Kaitlin Kaitlyn Kajen Kajsa Kaldi \
    Kalervo Kalevi Kalina Kalman Kamal Kameron Kamil Kamila Kamilah Kamilla Kamma Kaori Kara Kardelen Kareem Karel \
    Karen Karim Karin Karina Karine Karitas Karja Karl Karla Karlheinz Karli Karlo Karman Karmen Karmenu Karol \
    Karoliina Karolina Karoline Karolína Karon Karren Karri Karsten Karter Kartika Karítas Karólína Kasandra Kasie \
    Kasim Kaspar Kasper Katalin Katariina Katarina Katarzyna Katarína Kate Katelyn Katerina Kateryna Kateřina \
    Katharina Katharine Katherine Kathi Kathleen Kathrin Kathrine Kathryn Kathy Kati Katia Katie Katinka Katja Katla \
    Katriina Katrijn Katrin Katrina Katrín Katy Kauko Kauri Kaye Kayla Kaylan Kaylee Kayleigh Kazim Kazimierz Kazuo \
    Kaşif Keanu Kees Keijo Keith Kellie Kelly Kelsey Kenari Kendal Kendra Kenichi Kenji Kenneth Kenny Keran Keri \
    Kerman Kerstin Kerttu Kestutis Kevin Kezban Khadija Khadijah Khaled Khalid Khalil Kian Kiara Kiefer Kieran Kiki \
    Kilian Kiljan Killian Kimberley Kimberly Kimmo Kinaya Kinga Kipras Kira Kirill Kirsi Kirsten Kirstin Kirstine \
    Kirsty Kitti Kjarval Kjeld Kjell Kjersti Kjerstin Kjetil Klaas Klaudia Klaus Klavdija Klavs Kliment Klára Knut \
    Knútur Kocabaş Kody Koen Kolbrun Kolbrún Koldan Koldo Kolka Konrad Konráð Konstantin Konstantina Konstantinos \
    Konštantín Kopan Kormákur Kornel Kornelija Kory Kostas Kotryna Koçak Kraki Krasimir Kresimir Krešimir Kristall \
    Kristaps Kristbjörg Kristel Kristen Krister Kristi Kristian Kristiina Kristijan Kristin Kristina Kristine Kristián \
    Kristiāna Kristjan Kristjana Kristján Kristof Kristofer Kristoffer Kristrún Kristupas Kristyna Kristín Kristína \
    Kristóf Kristófer Kristýna Kristīne Krisztina Krišjānis Krišs Krummi Krystal Krystian Krystyna Kryštof Krzysztof \
    Kría Ksenia Ksenija Kullervo Kumral Kunigunde Kurnia Kurt Kurtis Kustaa Kusuma Kveta Květa Kylan Kyle Kylie \
    Kyllikki Kyra Kyriaki Kálmán Kâmil Käthe Kåre Kévin Kübra Kęstutis Kırgız Kısmet Kıvılcım Labuh Lachlan Ladislau \
    Ladislav Ladislava Laetitia Laia Laila Lajos Laken Laksana Lakshmi Lanang Landon Langgeng Lara Laras Larisa \
    Larissa Larry Lars Larysa Lascăr Laszlo Latifah Laufey Launa Laura Laure Lauren Laurence Laurens Laurent Laurentiu \
    Laurenz Laurențiu Lauri Laurie Laurin Lauritz Lautaro Lavada Lavina Lavinia Lawton Layla Lazaro Laze Lazzaro \
    Laëtitia Lea Leah Leana Leander Leandra Leandro Leanne Leena Leendert Leevi Lefteris Leif Leiknir Leila Leire Lela \
    Lempi Lena Leni Lenka Lenn Lennart Leona Leonard Leonardo Leoncio Leonel Leonhard Leoni Leonid Leonidas Leonie \
    Leonor Leonora Leopold Leopolda Leopoldo Leoš Lera Leroy Lesley Leslie Lesta Lesya Leszek Leticia Letizia Letícia \
    Levern Levi Levis Leví Lexi Leydi Leyla Liam Liana Liane Liban Libor Libuse Libuše Lică Lida Lidia Lidija Lidiya \
    Lidya Lieke Liesa Liesbeth Lieselotte Ligia Ligita Liis Liisa Lila Lili Lilia Lilian Liliana Liliane Lilie Lilija \
    Lilita Lilli Lillian Lily Lina Linda Lindbergh Lindita Lindsay Lindsey Lindy Linn Linnea Linnéa Lintang Lionel \
    Lisa Lisandro Lisbeth Lisette Livia Livio Liviu Liya Liza Lizzy Ljiljana Ljubica Ljubomir Ljudmila Ljótur Ljúfur \
    Llinos Lluis Lluís Loda Lodewijk Lodovico Loes Loftur Loic Lois Lola Lona Lope Lorcan Loredana Loren Lorena \
    Lorenza Lorenzo Loreto Loretta Lori Lorinc Loris Lorna Lorne Lorraine Lota Lothar Lott Lotte Lotti Lou Louis \
    Louisa Louise Louka Lovisa Lovro Lovísa Loïc Luan Luana Lubomir Luc Luca Lucas Lucho Lucia Luciana Luciano Lucie \
    Lucien Lucienne Lucija Lucile Lucinda Lucio Lucrezia Lucy Lucía Luda Ludek Ludmila Ludovic Ludovica Ludovico \
    Ludvig Ludvik Ludvík Ludwig Luděk Luigi Luis Luisa Luise Luiz Luiza Lujza Luka Lukas Luke Lukita Lukman Lukáš \
    Luluh Luminita Luminița Lumír Lupe Lurdes Lute Lutfi Luthfi Luuk Luzia Luzie Luís Luísa Lyda Lydia Lydie Lyla \
    Lyman Lynda Lynette Lynn Lyubomir Lyubov Lyudmila László Lázaro Lærke Léna Léon Léopold Lívia Lúcia Lúther Lúðvík \
    Lütfi Lýdia Lýður Lėja Līga Līna Līza Lőrinc Maaike Maarit Maarja Maarten Maartje Macarena Machteld Maci Maciej \
    Macy Madalena Madalina Maddalena Madeline Mael Maelle Maeve Mafalda Magali Magda Magdalena Magdalene Magdaléna \
    Magdolna Magga Maggi Maggie Magne Magnea Magnes Magnus Magnús Mahala Mahali Mahesa Mahfud Mahika Mahmoud Mahmud \
    Mahsun Maia Maija Maik Maimunah Maira Mairi Maisa Maite Maja Makara Maksim Maksym Maksymilian Malena Malene \
    Malgorzata Malik Malika Malin Malio Malla Malle Malte Mamadou Mamen Manaf Manfred Manie Manilla Manolis Manolo \
    Manon Manuel Manuela Manuelle Marc Marcel Marcela Marcelina Marcelino Marcell Marcella Marcelle Marcello Marcelo \
    Marcia Marcial Marciano Marcin Marcio Marco Marcos Marcus Marek Marel Maren Margaret Margareta Margarete \
    Margaretha Margarethe Margarida Margarita Margaux Margeir Margherita Margie Margit Margo Margot Margret Margriet \
    Margrét Marguerite Margus Maria Mariah Mariam Marian Mariana Mariangela Mariann Marianna Marianne Mariano Maribel \
    Marica Maricel Maricela Marie Marieke Mariel Mariela Mariella Marielle Marietta Mariette Mariia Marija Marijan \
    Marijana Marijke Marika Marilena Marilou Marilyn Marina Marinka Marinus Marinó Mario Mariola Marion Marisa Marisol \
    Marissa Marit Marita Mariusz Marián Marjaana Marjan Marjatta Marjeta Marjo Marjolein Marjorie Marketa Marketta \
    Markku Marko Markus Markéta Markó Marleen Marlena Marlene Marlies Marlo Marloes Marlon Marlène Marni Marnie Marnix \
    Marquise Marta Marteinn Marten Martha Marthe Martijn Martim Martin Martina Martine Martirio Martta Martti Martín \
    Maruša Marvin Mary Maryam Maryjo Maryse Marzena María Marína Marínó Masahiro Massimiliano Matej Mateo Mateusz \
    Matevž Mathew Mathias Mathieu Mathijs Mathilda Mathilde Matias Matilda Matilde Matjaz Matjaž Matouš Mats Matta \
    Matteo Matthew Matthias Matthieu Matthildur Matthäus Matti Mattie Matvey Matyáš Matěj Maud Maude Mauno Maura \
    Maureen Mauri Maurice Mauricio Maurits Maurizio Mauro Mavis Maxence Maxime Maximilian Maximiliano Maximilien \
    Maximo Maxine Maya Mayra Mazlum Maël Maëlle Małgorzata Meabh Mechthild Meda Meera Megan Meghan Mehdi Mehmet Meike \
    Melania Melanie Melba Melchor Melina Melinda Melisa Melissa Melita Melkorka Mell Melle Melvin Mengi Meredith Merel \
    Meret Merete Meritxell Merkúr Merve Mervi Metka Metta Mette Mevlüt Mhairi Micaela Micha Michael Michaela Michail \
    Michal Michalis Michaël Michał Micheal Michel Michela Michele Micheline Michelle Michèle Mickael Mickaël Micky \
    Mieczyslaw Mieczysław Mieke Mieszko Miglė Miguel Miguela Mihael Mihaela Mihai Mihaly Mihkel Mihnea Mihály Miia \
    Miika Mijo Mika Mikael Mikaela Mike Mikel Mikhail Miki Mikkel Mikko Miklos Miklós Milada Milagros Milda Mildred \
    Milena Milica Milka Milla Millie Milorad Milos Miloslav Miloslava Milou Milovan Miloš Milán Mimmi Mimoza Mina \
    Mindaugas Mindy Minna Mioara Miodrag Mira Miran Miranda Mireille Mirela Mirella Miren Miriam Mirja Mirjam Mirjana \
    Mirko Miro Miron Miroslav Miroslava Miroslaw Mirosław Mirsad Mirta Mirtha Miruna Misti Mitchell Mitică Miķelis \
    Miłosz Mjallhvít Mjöll Mladen Modesta Modris Mogens Mohamed Mohammad Mohammed Moira Moisés Mojca Mojmír Molly Mona \
    Monica Monika Monique Monja Montel Montse Morag Morena Morgane Morten Mosi Mourad Mugur Mugurel Muhamed Muhammad \
    Muhammet Mujur Muktedir Mulya Mulyono Mumpuni Murad Murat Muriel Murilo Murray Musa Mustafa Mustapha Mustika \
    Muvaffak Mykhailo Mykola Mylène Myra Myriam Máire Málfríður Máni Márcio Mária Márta Märta Märtha Måns Mårten Méabh \
    Mélanie Mélissa Mélodie Mícheál Mónica Mónika Mörður Mücevher Müjde Mümtaz Māris Mārtiņš Mārīte Mădălin Mădălina \
    Nabil Nacio Nadezhda Nadežda Nadia Nadin Nadine Nadja Nafile Naglis Nahuel Naim Najwa Naki Nalar Namon Nancy Nando \
    Nandor Nanna Nanni Naoki Naoko Naomi Narcis Narcisa Narciso Nasir Nastja Natacha Natali Natalia Natalie Nataliia \
    Natalija Nataliya Natan Natanael Natasa Natascha Natasha Natasja Nataša Nathalia Nathalie Nathan Nathaniel \
    Natividad Natália Natálie Natālija Naud Nautica Nazaret Nazim Nazlı Nazmi Nebojsa Nebojša Neha Neil Neisti Nejc \
    Nelleke Nelli Nellie Nelu Nemanja Nenad Nenni Neptün Nerea Nermin Nerys Nete Netra Netta Nevenka Neža Niall Niamh \
    Nicanor Niccolo Niccolò Nichifor Nicholas Nick Nicklas Niclas Nicoară Nicodim Nicola Nicolae Nicolai Nicolaj \
    Nicolas Nicolaus Nicole Nicoleta Nicoletta Nicolo Nicolás Nicolò Nicușor Nidia Niek Niels Nienke Nigel Nihal Nihan \
    Niilo Niina Nika Nikanor Nikhil Niki Nikita Nikki Nikko Niklas Nikol Nikola Nikolai Nikolaos Nikolas Nikolaus \
    Nikolay Nikolett Nikolina Nikos Nilam Nilo Nils Nina Nino Nisha Nita Nives Niyaz Niyazi Njáll Njörður Noah Noam \
    Noelia Noelle Noemi Noemie Noemí Nojus Nola Nona Noora Nora Norah Norbert Norberto Nore Norma Norman Normann \
    Normunds Novella Noémi Noémie Noëlle Nuala Nubia Nugraha Nuno Nunzio Nuran Nuray Nurcan Nuria Nurkan Nuru Nurullah \
    Nuša Nyah Nyoman Nándor Néstor Nína Nóra Nökkvi Núria Oceane Octa Octav Octavia Octavian Octavie Octavio Océane \
    Oddgeir Oddi Oddny Oddný Oddvar Odette Odie Odile Odina Ofelia Oisin Oisín Oksana Olafur Olav Olavi Oldrich \
    Oldřich Ole Oleg Oleh Oleksandr Oleksii Oleksiy Olena Olesya Oleta Oley Olga Olinda Oliver Olivia Olivie Olivier \
    Olivér Oliwia Olli Olov Oluş Olívia Omar Omina Ondrej Ondřej Oona Ophélie Oranlı Orazio Oreste Oriol Orla Orma \
    Ormar Ormur Orna Ornella Orra Orsolya Orson Oscar Oskar Oskari Osman Osmo Ossian Osvaldo Osvalds Oswald Oswaldo \
    Otakar Otilia Otri Ottavio Ottone Ottó Otávio Outi Ovidio Ovidiu Owain Oyvind Ozgur Oğuz Oľga Paavo Pabla Pablo \
    Paca Pacífica Padraic Padraig Paivi Palle Paloma Pamela Panagiotis Panait Panca Pancho Panfilo Panini Panji \
    Pankrác Paola Paolo Paraschiva Paraskevi Pascale Pasquale Pasqualina Pastora Pate Patrekur Patric Patrice Patricia \
    Patricie Patricija Patricio Patrick Patrik Patrizia Patrizio Patryk Patrícia Patxi Paul Paula Paule Paulette \
    Pauliina Paulin Paulina Pauline Paulino Paulo Paulína Pavao Pavel Pavlo Pavlína Pawel Paweł Payton Peder Pedro \
    Peggy Pekka Pekkan Pellegrino Penelope Penni Pentti Pepijn Pepito Peren Peris Perla Pernilla Pernille Pertti Pete \
    Peter Peteris Petr Petra Petrea Petri Petrică Petrișor Petronella Petros Petrus Philip Philipp Philippa Philippe \
    Phillip Philo Philomena Phoebe Phyllis Pia Piedad Pien Pierluigi Pierre Pieter Pietro Piia Pijus Pilar Piotr Pippa \
    Piret Pirjo Pirkko Piroska Pius Pleșu Plinio Pluma Polina Polona Pompeo Pontus Porfirio Poul Praba Prabu Prakash \
    Pranata Pranav Pratik Preben Predrag Premysl Prentiss Priit Primitiva Primitivo Primus Priscila Priscilla Priya \
    Prudencia Przemyslaw Przemysław Purificación Purwanto Puspa Pádraic Pádraig Pála Pálmar Pálmi Pálína Päivi \
    Pénélope Péter Pétur Pătru Pēteris Přemysl Qadir Qasim Quentin Quim Quint Quirino Qurban Racha Rachael Rachel \
    Rachelle Rachid Radek Radha Radim Radit Raditya Radka Radmila Radomír Radoslav Radoslava Radoslaw Radosław Radovan \
    Radovana Rafael Rafaela Rafal Rafał Raffael Raffaele Raffaella Raffaello Rafiq Ragna Ragnar Ragnheidur Ragnheiður \
    Ragnhild Ragnhildur Raharja Rahel Rahma Rahmi Rahul Raihan Raija Raili Raimo Raimondo Raimonds Raimund Raimundo \
    Raina Rainer Raisa Raivis Raivo Raj Rajab Rajesh Rajko Rakel Ralf Ralitsa Ralph Raluca Ramil Raminta Ramiro Ramiz \
    Ramona Ramunė Ramón Randi Randy Rangga Rania Ranieri Raoul Raphael Raphaël Raquel Rasim Rasma Rasmus Rastislav \
    Ratih Ratko Raul Rauno Ravi Rayan Raymond Raymundo Razi Razvan Raúl Rebeca Rebecca Rebecka Rebeka Rebekah Rebekka \
    Recep Refik Refur Reginald Regine Reginn Regína Regīna Reidar Reidun Reijo Reimar Reimer Reinaldo Reinar Reiner \
    Reinhard Reinhart Reinhold Reinier Reksa Rembrandt Remedios Remi Remo Remy Remzi Renata Renate Renato Rendy Renee \
    Reni Renske Renzo Renáta René Renée Restu Reuben Reva Reyhan Reynaldo Reza Rhian Rhiannon Rhodri Rhonda Rhys \
    Ricardo Riccardo Richard Ricky Rigmor Rigo Riina Riitta Rikard Rimantas Rimantė Rinaldo Rini Rino Risto Rita Ritt \
    Ritva Riya Riyad Riza Rizki Robbie Robby Robert Roberta Roberto Robin Robyn Rochelle Rocío Rodica Rodney Rodolfo \
    Rodolphe Rodrigo Roel Rogelio Roger Rogerio Rogério Rohan Roisin Roksana Roksolana Roland Rolanda Rolando Rolands \
    Rolf Romain Romaine Romeo Romina Romolo Romuald Romy Roméo Rona Ronald Ronan Roni Ronin Ronja Ronnie Ronny Rony \
    Roosa Rory Rosa Rosalia Rosalie Rosalind Rosalinda Rosalía Rosanna Rosaria Rosario Rosemarie Rosemary Rosendo \
    Roser Rosi Rosie Rosina Rosita Rositsa Rossana Rostislav Roswell Roswitha Rowena Roxana Roxane Roxanne Roy Roza \
    Rozália Ruairi Ruairí Ruaridh Ruben Rubi Rubén Rudi Rudolf Rudolph Rudy Ruel Rufino Ruggero Ruggiero Ruhsat \
    Runólfur Rupert Ruprecht Ruslan Rusnė Rusul Rutger Ruth Ruud Ruxandra Ruzena Ruzica Ružica Ryan Ryker Ryszard \
    Rytis Régine Régis Réka Rémi Rémy Ríkharður Róberta Róisín Rómeó Rómulo Rónán Rósar Róza Róża Rögnvaldur Röskva \
    Rúben Rúna Rúrik Rútur Rüdiger Răzvan Rūta Růžena Saba Saban Sabin Sabina Sabine Sabrina Sacha Sadaka Sadat Sadik \
    Sadiq Safet Sahra Saida Saiful Saim Salina Salka Sally Salma Salome Salomon Salomé Salomón Salvatore Salvör Salwa \
    Salóme Salómon Samanta Samantha Sami Samir Samira Sammy Samsul Samuel Samuele Samúel Sanda Sander Sandis Sandor \
    Sandra Sandrine Sandro Sandur Sandy Sanita Sanja Sanjay Sanna Sante Santeri Santino Sanur Sanya Saoirse Sara Sarah \
    Sarina Sarmīte Sarunas Sasa Sascha Sasha Saskia Satoshi Satya Saul Savak Savana Saverio Saydam Saïd Saúl Saša Sašo \
    Scott Scottie Seamus Sean Seana Sebastiaan Sebastian Sebastiano Sebastien Sebastijan Sebastián Sebastião Sebastjan \
    Segolene Seif Seifur Seija Selcuk Selena Selina Selvi Selçuk Semra Senna Seppe Seppo Serena Serge Sergei Sergej \
    Sergey Sergi Sergio Serhii Serhiy Serkan Serpil Sesar Sesselja Setya Severin Severine Severino Severo Sevil Sevim \
    Sevindik Seye Seán Shaina Shakira Shane Shani Shania Shannon Shari Sharlene Sharon Shaun Shayne Sheena Sheila \
    Shelley Shem Sherwin Sheryl Shiela Shinji Shirley Shona Shota Shpresa Sian Sibylle Siebe Siegfried Sieglinde Siem \
    Sien Sietske Sigge Sighvatur Sigismund Sigita Sigmar Sigmund Signa Signý Sigrid Sigridur Sigrun Sigríður \
    Sigtryggur Sigurbjörg Sigurbjörn Sigurborg Sigurd Sigurdur Sigurgeir Sigurlaug Sigurrós Sigursteinn Sigurveig \
    Sigurður Sigvaldi Sigþrúður Siim Siiri Silja Silje Silke Silvan Silvana Silvano Silvester Silvestre Silvestro \
    Silvia Silvija Silvio Silvo Simas Simeon Simina Simon Simona Simone Simonetta Simão Simón Sindre Sinead Sinikka \
    Sinisa Siniša Sintija Sinéad Siobhan Siobhán Sioned Siper Sirap Sirkka Sirpa Siska Sissel Sivert Sixten Siân Sjaak \
    Sjoerd Sjöfn Skafti Skaidrīte Skapti Skarphéðinn Skeggi Skender Skjöldur Skuggi Skyla Skírnir Skíði Skúta Slamet \
    Slavica Slavka Slavko Slavomir Slavomír Slawomir Slobodan Smaranda Smiður Snezana Snezhana Snežana Snježana Snorri \
    Snæbjörn Snævarr Soeren Soffía Sofi Sofia Sofiane Sofie Sofiia Sofía Solange Solbritt Soledad Soleh Solene Soline \
    Solmaz Solomiia Solon Solveig Solvita Solène Sondre Songul Songül Sonia Sonja Sonya Sophia Sophie Sorana Soraya \
    Soren Sorin Sorina Sotiris Soňa Spyros Srečko Stacey Stacy Staffan Stanimir Stanislav Stanislava Stanislaw \
    Stanislawa Stanisław Stanisława Stanka Stanko Stanley Starling Stavros Stavroula Staņislavs Stefan Stefani \
    Stefania Stefanie Stefano Stefanía Steffen Steffi Stefica Stefán Steinar Steinarr Steindór Steinunn Steinþór Stela \
    Stelios Stella Stepan Stephan Stephane Stephanie Stephen Sterre Steve Steven Stijn Stina Stine Stiven Stjepan \
    Stojan Stormur Stoyan Stuart Sture Styrmir Stéphane Stéphanie Stína Sudie Suleyman Sunay Sunil Sunna Sunniva Suphi \
    Suresh Susam Susan Susana Susann Susanna Susanne Suvakit Suzan Suzana Suzanne Suzette Svala Svan Svana Svandís \
    Svanhildur Svante Svanur Svava Svea Svein Sveina Sveinar Sveinbjörn Sveinn Sven Svend Svenja Sverre Svetlana \
    Svitlana Svätopluk Swantje Syahrini Sybille Sylva Sylvain Sylvia Sylvie Sylwia Synnove Synnøve Szabolcs \
    Szilveszter Szilvia Szymon Sándor Sára Sæmundur Sæunn Sævar Sébastien Ségolène Sérgio Séverine Sóla Sólon Sólrún \
    Sólveig Sölva Sölvi Sönke Sören Sörli Søren Súsanna Süleyman Süvari Sıla Sławomir Taavi Tabitha Tade Tadej Tadeja \
    Tadeo Tadeusz Tadhg Taha Tahir Taina Taine Taisto Taja Takashi Talia Tamar Tamara Tamas Tami Tammy Tamás Tana \
    Tanak Tanay Taneli Tania Tanja Tanpınar Tanya Tara Tarak Taras Tariq Tarja Tarmo Taro Taru Tasdik Tasha Tasvir \
    Tatiana Tatjana Tatu Tatyana Taufik Tauno Tautvydas Tavon Taya Tecla Ted Teemu Teija Teitur Teja Tejas Tekla Telma \
    Telmo Teodor Teodora Teodoro Teodors Teofil Terence Teresa Teresita Tereza Terezia Terezija Terhi Teri Tero \
    Terrence Terri Terry Terttu Teréz Terézia Tessa Tessie Tetiana Teun Teuta Tezcan Thaddeus Thales Thalia Thanasis \
    Thea Thelma Theo Theodor Theodora Theodore Theodoros Theodór Theresa Therese Theresia Thibault Thibaut Thierry \
    Thijs Thilo Thodoris Thomas Thorbjorn Thorbjørn Thorkild Thorsteinn Thorsten Thorunn Thyra Théo Théodore Théophile \
    Thérèse Tiago Tiana Tiara Tibo Tibor Tiffany Tiia Tiina Tiit Tiiu Tilda Tilen Tilman Tim Timea Timm Timmy Timo \
    Timofey Timon Timotei Timotej Timoteo Timothy Timothée Tina Tinca Tindra Tindur Tineke Tinni Tirta Tisa Titas \
    Tiziana Tiziano Tjaša Tjeerd Tobe Tobias Todd Todor Tolga Tolli Tom Tomas Tomasa Tomasz Tomaz Tomaž Tomie Tomislav \
    Tommaso Tommi Tommy Tomris Tomurcuk Tomás Tomáš Tonda Toni Tonino Tonje Tonni Tonny Tonu Tony Tonya Toomas Topuz \
    Tora Torben Torbjorn Torbjörn Torbjørn Tord Tore Torgeir Tori Torill Tormod Torrey Torstein Torsten Tove Tracey \
    Tracy Traute Trena Trevor Tricia Triin Trijntje Trina Trine Tripp Trish Trisha Trista Tristan Tristán Troels Trond \
    Trude Trudy Truus Tsubasa Tsvetan Tsvetana Tugba Tuija Tulay Tulio Tullio Tumi Tuncay Tunde Tuomas Turid Tuukka \
    Tuula Tuulia Tuulikki Tuğba Tuğçe Tyra Tyrone Tânia Tímon Tína Tóta Tõnu Tülay Tülin Tümer Tünde Türkan Ueli Uggi \
    Ugnė Ulises Ulla Ulrich Ulrik Ulrika Ulrike Umay Umberto Umman Unai Unni Urmas Uros Uroš Urska Ursula Urszula Urša \
    Urška Uschi Usman Uwe Uxía Uğur Vaclav Vadim Vagn Vagna Vaida Vaino Valbona Valborg Valdemar Valdis Valdís \
    Valentijn Valentim Valentin Valentina Valentín Valentína Valentīna Valeri Valeria Valerie Valerija Valerio \
    Valgarður Valgeir Valgerdur Valgerður Valter Valtýr Valéria Valérie Valéry Vanesa Vanessa Vangelis Vanja Varvara \
    Vasil Vasile Vasilica Vasiliki Vasilis Vasily Vasyl Vebjorn Vebjørn Vedran Veer Veera Veerle Veeti Vegard Veiga \
    Veijo Veikko Veis Vella Vello Velma Venera Veniamin Venla Vennie Vera Verena Verim Verl Verle Verna Verne Verner \
    Vernice Veronica Veronika Veronique Verónica Vesna Vessie Vesta Vestar Veva Vicente Vicki Vicky Victor Victoriano \
    Vidar Viesturs Vigdis Vigdís Viggo Viggó Vignir Vigo Viivi Vijay Vikar Viktor Viktoria Viktorie Viktoría Viktória \
    Vilberg Vilborg Vilem Vilhelm Vilhelmina Vilho Vili Viliam Viljem Viljo Vilma Vilmos Vilmundur Vilém Vince Vincent \
    Vincenza Vincenzo Vineta Vinicius Vinko Vinnie Vinný Vinzenz Vinícius Violeta Violetta Violette Viorel Viorica \
    Viraj Virginie Virginija Virginía Virpi Visarion Visvaldis Vitalii Vitalija Vitaliy Vitaly Vito Vitor Vittorio \
    Vivian Viviana Viviane Vivien Vivienne Vjekoslav Vjosa Vladimir Vladimír Vladimíra Vladislav Vladislavs Vlaicu \
    Vlasta Vlastimil Voicu Vojislav Vojtech Vojtěch Voldemārs Volkan Volker Volodymyr Vonda Vopni Vratislav Vreni \
    Vuokko Vyacheslav Vytautas Vytenis Václav Väinö Véronique Vésteinn Víctor Vífill Vítor Vítězslav Víðir Vörður \
    Wahab Waldemar Walid Walter Walther Waltraud Wanda Wani Wawan Wayne Wenche Wendy Wenzel Werner Weronika Wesley \
    Wessel Widya Wieslaw Wieslawa Wiesław Wiesława Wietske Wiktor Wilfred Wilfredo Wilfried Wilhelm Wilhelmina \
    Wilhelmus Willa Willard Willem Willemijn Willi William Willian Willum Wilma Wilmer Winda Winfried Winnie Wirt \
    Wisnu Witold Wladimir Wlodzimierz Wojciech Wolfgang Wouter Wulan Włodzimierz Xabier Xander Xaver Xavier Xenia \
    Xhevdet Ximena Xoán Xènia Yadigar Yamin Yanina Yanis Yankı Yann Yannick Yannis Yaroslav Yasemin Yasin Yasmin \
    Yasmina Yasmine Yasser Yassin Yağın Yehuda Yelena Yenny Yesenia Yevgeny Yevhen Yiannis Ylva Yngve Yngvi Yohan \
    Yohana Yolanda Yolande Yordan Yordanka Yosef Youssef Yrjo Yrjö Yrsa Yuki Yuli Yulia Yuliana Yuliia Yumiko Yuni \
    Yunita Yuri Yurii Yuriy Yurttaş Yusuf Yuta Yvan Yves Yvette Yvon Yvonne Zacharie Zachary Zahid Zahir Zahra Zaid \
    Zainab Zakaria Zakir Zaliha Zalán Zamfir Zander Zaraza Zarina Zbigniew Zbyněk Zdenek Zdenka Zdenko Zdeněk Zdravka \
    Zdravko Zdzislaw Zdzisław Zeferino Zehra Zeliha Zena Zeno Zenta Zeynep Zhanna Ziedonis Zihni Zikmund Zinaida Zita \
    Zizi Zlatko Zoe Zoey Zofia Zofija Zoja Zoltan Zoltán Zora Zoran Zorica Zoé Zoë Zsigmond Zsolt Zsombor Zsuzsanna \
    Zsófia Zuzana Zuzanna Zvonimir Zvonka Zvonko Zydrunas Zygmunt Zümre Ábel Ádám Ágnes Ágota Ágústa Ákos Álex Álfar \
    Álfheiður Álfur Álvaro Ámbar Ángel Ángela Árni Áron Árpád Ársæll Ásberg Ásbjörn Ásgerður Ásgrímur Áskell Ásrún \
    Ásthildur Ástríkur Ástríður Ástvin Ástþór Âdem Ângela Ângelo Åsa Åse Åshild Æsir Ævar Çakar Çağa Çağlar Çiğdem \
    Éamonn Édith Édouard Élisabeth Élise Élodie Éloïse Émile Émilie Éric Étienne Íris Ísafold Ísak Ísbjörn Ísleifur \
    Ísold Ísólfur Ívan Íñigo Ófeigur Ólafur Ólafía Óliver Ólína Órla Óscar Óttar Óttarr Ölvir Öncel Önundur Örjan \
    Örlygur Östen Özay Özbay Özdeş Özdil Özge Özgür Özlem Øivind Øystein Øyvind Úlfa Úlfar Úlfur Ülle Ümmet Üzer \
    Üzeyir Þjálfi Þoka Þorbergur Þorbjörg Þorfinnur Þorgrímur Þorleifur Þorlákur Þormar Þormóður Þorri Þorsteinn \
    Þorvarður Þráinn Þrándur Þróttur Þröstur Þyri Þórbergur Þórey Þórhalli Þórhallur Þórhildur Þóroddur Þórunn \
    Þórólfur Ādams Ādolfs Ārija Đorđe İbrahim İlkin İlyas İmge İmran İnançlı İnsaf İsmail İsra Ľubica Ľubomír Ľubomíra \
    Ľuboš Ľudmila Łukasz Şafii Şahinbey Şakir Şamil Şanlı Şayan Şebnem Şemsettin Şevket Şeyda Şinasi Şule Şöhret \
    Šarūnas Šime Špela Štefan Štefica Štěpán Štěpánka Šárka Žaneta Žanis Željka Željko Žemyna Živilė Živko Žydrūnas \
    Ștefan Ștefania";

/// Words behind a given name that make it something else: a street, a house, a firm, a prize.
const NO_SURNAMES: &str = "Street St Avenue Ave Road Rd Lane Drive Boulevard Blvd Court Place Square Way Hall House Building Tower Center Centre \
    Bridge Park Garden Gardens Beach Bay Bar Lake River Island Islands Hill Hills Mountain Valley County City Town Village Airport Station Port \
    University College School Institute Academy Library Museum Theatre Theater Church Cathedral Hospital Clinic Hotel Inn Restaurant Cafe Café Bakery \
    Foundation Fund Trust Bank Group Company Co Inc Ltd LLC Corp Corporation GmbH AG SA Records Media Studio Studios Award Awards Prize Medal Cup Open \
    Day Week Show Theorem Law Rule Test Effect Number Method Algorithm Model Equation Line Code Database API Server Bot";

/// Words before a given name that make it a place: San Francisco, Saint Martin.
const PLACES: &str = "San Santa Santo São St Saint Sankt Fort Port Lake Mount Cape Isle";

/// The longest of these names, in bytes.
const LEN_MAX: usize = 13;

/// Whether this word is a given name, written as one.
pub(super) fn is_given(word: &[u8]) -> bool {
    let Some(&first) = word.first() else { return false };
    (first.is_ascii_uppercase() || first >= 0x80) && word.len() <= LEN_MAX && table().contains(word)
}

/// Whether this word, behind a given name, is a surname for all that is known.
pub(super) fn may_be_surname(word: &str) -> bool {
    !NO_SURNAMES.split_ascii_whitespace().any(|known| known == word)
}

/// Whether this word, before a given name, makes it a place.
pub(super) fn makes_place(word: &str) -> bool {
    PLACES.split_ascii_whitespace().any(|known| known == word)
}

fn table() -> &'static HashSet<&'static [u8], BuildHasherDefault<Short>> {
    static TABLE: OnceLock<HashSet<&'static [u8], BuildHasherDefault<Short>>> = OnceLock::new();
    TABLE.get_or_init(|| GIVEN.split_whitespace().map(str::as_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again_and_stands_once() {
        let names: Vec<&str> = GIVEN.split_whitespace().collect();
        let longest = names.iter().map(|name| name.len()).max();
        assert_eq!((longest, table().len()), (Some(LEN_MAX), names.len()));
        assert!(names.iter().all(|name| is_given(name.as_bytes())));
        for name in
            ["Miklós", "Miklos", "Ondřej", "Ondrej", "Guðrún", "Knut", "Heikki", "Oksana", "Siobhán", "Siobhan", "İbrahim"]
        {
            assert!(is_given(name.as_bytes()), "{name}");
        }
        for word in ["German", "Even", "Rune", "Siri", "Liga", "Petro", "Florin", "Ramazan"] {
            assert!(!is_given(word.as_bytes()), "{word}");
        }
        assert!(!is_given(b"john") && !is_given(b"JOHN") && !is_given(b"May") && !is_given(b""));
    }
}
